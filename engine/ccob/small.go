package ccob

import (
	"context"
	"io"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// small holds the raw bytes of a small bundle, or the first of them while they are decoded block by block.
// The wholeMu of its Reader guards it.
type small struct {
	raw    []byte
	hashed bool // whether the hash was compared

	d   *zstd.Decoder // decodes the bytes after raw; nil without such bytes
	f   *frame        // of d
	src *spliced      // what d has not read yet
	err error         // that ended the decoding
}

// smallCheck selects how bytes of a small bundle are checked if their last block is decoded.
type smallCheck int

const (
	checkNothing smallCheck = iota
	checkFrames             // with the checksums of the frames, else with the hash
	checkHash               // also with the hash
)

// extractSmall is Extract of a small bundle. If failed is not nil, the batch compares the hash later.
func (r *Reader) extractSmall(ctx context.Context, ranges []Range, failed func(error)) error {
	need, check := r.h.RawSize, checkFrames
	if r.gradual {
		need = 0
		for _, g := range ranges {
			need = max(need, g.end())
		}
	}
	if r.o.Hash == HashAuto {
		check = checkHash
	}
	raw, err := r.readSmall(ctx, need, check, failed)
	if err != nil {
		return err
	}
	for _, g := range ranges {
		if g.W == nil {
			continue
		}
		if _, err := g.W.Write(raw[g.Offset:g.end()]); err != nil {
			return err
		}
	}
	return nil
}

// readSmall returns the first n raw bytes of a small bundle. It decodes and checks everything, unless
// gradual allows less, and keeps the result for the next call until the memory is required.
func (r *Reader) readSmall(ctx context.Context, n int64, check smallCheck, failed func(error)) ([]byte, error) {
	r.wholeMu.Lock()
	defer r.wholeMu.Unlock()
	s, err := r.decodeSmall(ctx)
	if err == nil {
		err = s.upTo(n)
	}
	if err == nil && check != checkNothing && s.last() {
		err = r.checkSmall(ctx, s, check, failed)
	}
	if err != nil {
		return nil, err
	}
	return s.raw[:n:n], nil
}

// checkSmall checks a small bundle, whose last block is decoded.
func (r *Reader) checkSmall(ctx context.Context, s *small, check smallCheck, failed func(error)) error {
	if err := s.upTo(r.h.RawSize); err != nil || s.hashed {
		return err
	}
	if check == checkFrames && !r.gradual {
		// The decoder has compared checksums, in less time.
		if form, err := r.form(); err != nil || form == checksums {
			return err
		}
	}
	if failed != nil {
		r.o.Batch.later(waiting{r, s.raw, failed})
		return nil
	}
	err := r.checkRaw(ctx, s.raw)
	s.hashed = err == nil
	return err
}

// decodesGradually reports whether the blocks of a small bundle are decoded as far as is required,
// and its hash is compared if that includes the last block: for one of many in the form that LLVM
// writes, because the hash takes longer than decoding.
func (r *Reader) decodesGradually() bool {
	if r.o.Hash != HashProof || r.o.Batch == nil || r.h.RawSize <= maxBlock || r.h.RawSize > wholeMost || r.index != nil {
		return false
	}
	f, like := r.llvmFrame()
	return like && f.walk(r.data) == nil && f.end == int64(len(r.data))
}

// decoderRoom is the number of bytes that the decoder may overwrite after its
// output, so that it can copy matches without a check for the end.
const decoderRoom = 16

// decodeSmall decodes a small bundle, or returns the kept result of an earlier
// call. A bundle that is decoded gradually may lack bytes, see upTo. It requires wholeMu.
func (r *Reader) decodeSmall(ctx context.Context) (*small, error) {
	if s := r.whole.Value(); s != nil {
		return s, nil
	}
	spans, known, err := r.spans(r.h.RawSize)
	if err != nil {
		return nil, err
	}
	s := new(small)
	if n := int(r.h.RawSize) + decoderRoom; r.o.Batch != nil {
		s.raw = r.o.Batch.take(r, n)
	} else {
		s.raw = make([]byte, 0, n)
	}
	switch {
	case r.gradual:
		err = s.start(r.data, spans[0].frame)
	case known:
		s.raw = s.raw[:r.h.RawSize]
		for i := 0; i < len(spans) && err == nil; i++ {
			err = r.decodeFrame(spans[i].frame, s.raw[spans[i].raw:spans[i].rawEnd()], decoderRoom)
		}
	default:
		err = r.stream(ctx, r.h.RawSize, func(p []byte) error {
			s.raw = append(s.raw, p...)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	r.whole = weak.Make(s)
	if r.o.Batch != nil {
		r.kept = s
	}
	return s, nil
}

// forget ends the use of memory of the batch.
func (r *Reader) forget() {
	r.o.Batch = nil
	if s := r.kept; s != nil {
		r.kept, r.whole = nil, weak.Pointer[small]{}
		s.close()
	}
}

// start prepares to decode f block by block.
func (s *small) start(data []byte, f *frame) (err error) {
	s.f = f
	if s.src, err = f.reader(data, f.size); err != nil {
		return err
	}
	s.d = decoders.Get().(*zstd.Decoder)
	if err := s.d.Reset(s.src); err != nil {
		s.close()
		return zstdError(f, err)
	}
	return nil
}

// last reports whether the last block is decoded.
func (s *small) last() bool { return s.d == nil || len(s.src[1]) == 0 }

// close ends the use of the decoder, if any.
func (s *small) close() {
	if s.d != nil {
		_ = s.d.Reset(nil) // releases the source
		decoders.Put(s.d)
		s.d = nil
	}
}

// upTo decodes the first n raw bytes, if they are not decoded yet.
func (s *small) upTo(n int64) error {
	have := len(s.raw)
	if s.d == nil || int64(have) >= n {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	got, err := io.ReadFull(s.d, s.raw[have:n])
	if err == nil && n == s.f.size {
		// The frame must end here.
		var more [1]byte
		switch k, end := s.d.Read(more[:]); {
		case k > 0:
			err = zstd.ErrFrameSizeExceeded
		case end != io.EOF:
			err = end
		}
	} else if err == io.EOF || err == io.ErrUnexpectedEOF && s.last() {
		err = zstd.ErrFrameSizeMismatch
	}
	s.raw = s.raw[:have+got]
	if err != nil {
		s.err = zstdError(s.f, err)
		return s.err
	}
	if n == s.f.size {
		s.close()
	}
	return nil
}
