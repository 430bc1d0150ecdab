package ccob

import (
	"context"
	"io"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// A proof is a way for a Reader to check that it returns the bytes that were
// compressed.
type proof int

const (
	undecided proof = iota
	unproved        // not at all
	byIndex         // with the index
	atOnce          // everything is decoded at once, because it is small
	byFrames        // with the checksums of the frames, which are decoded to their ends
	byHash          // with the hash of the header, which requires all raw bytes
)

// wholeMost is the largest raw size at which everything is decoded for any
// read.
const wholeMost = 1 << 20

// listMost is the largest raw size at which everything is decoded for a
// listing.
const listMost = 64 << 20

// proofFor selects the proof of the data to read. For some bundles, contents are proved but the
// header alone is not, because recognizing these bundles requires reading all of the data.
func (r *Reader) proofFor(contents bool) (proof, error) {
	switch {
	case r.o.Hash == HashFull:
		if contents {
			return byHash, nil
		}
		return unproved, nil // Extract will check
	case r.o.Hash == HashNone:
		return unproved, nil
	case r.index != nil:
		return byIndex, nil
	case !contents && r.likeLLVM():
		return unproved, nil
	case r.h.RawSize <= wholeMost:
		return atOnce, nil
	case r.h.Method != Zstd:
		return unproved, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !contents && r.h.RawSize > listMost && !endsLikeIndex(r.data) {
		return unproved, nil // the checksums are checked when an entry is read
	}
	if r.proof == undecided {
		form, err := r.form()
		if err != nil {
			return undecided, err
		}
		switch form {
		case checksums:
			r.proof = byFrames
		case oneFrame:
			r.proof = unproved
		default:
			r.proof = byHash
		}
	}
	return r.proof, nil
}

// likeLLVM reports whether the bundle begins as LLVM writes it, with one frame without a checksum.
// It does not examine the data after that frame, except for an end like that of an index.
func (r *Reader) likeLLVM() bool {
	if r.h.Method != Zstd || endsLikeIndex(r.data) {
		return false
	}
	f, err := frameAt(r.data, r.h.DataOffset)
	return err == nil && !f.skippable && !f.checksum && f.size == r.h.RawSize && f.size > 0
}

// Verify runs all checks of HashAuto and decodes the data that they require.
func (r *Reader) Verify(ctx context.Context) error {
	proof, err := r.proofFor(true)
	if err != nil || proof == unproved {
		return err
	}
	all := []Range{{Size: r.h.RawSize}}
	if proof == byIndex {
		all = all[:0]
		for _, p := range r.index.pieces {
			all = append(all, Range{Offset: p.off, Size: p.size})
		}
	}
	return r.extract(ctx, proof, all, nil)
}

// form is the structure of a bundle without an index.
type form int

const (
	otherForm form = iota
	oneFrame       // only one frame, without a checksum
	checksums      // frames with checksums
)

// form returns the form of the bundle. It reads the headers of all blocks.
func (r *Reader) form() (form, error) {
	if r.h.Method != Zstd {
		return otherForm, nil
	}
	frames, summed, others := 0, 0, 0
	for pos := r.h.DataOffset; pos < int64(len(r.data)); {
		if r.h.Version == 1 && !isFrame(r.data[pos:]) {
			break // the following data is not part of the bundle
		}
		f, err := frameAt(r.data, pos)
		if err == nil {
			err = f.walk(r.data)
		}
		if err != nil {
			return otherForm, err
		}
		switch {
		case f.skippable:
			others++
		case f.size == 0:
			others++ // contains no data to prove
		case f.checksum:
			summed++
			frames++
		default:
			frames++
		}
		pos = f.end
	}
	switch {
	case summed == frames:
		return checksums, nil
	case frames == 1 && others == 0:
		return oneFrame, nil
	}
	return otherForm, nil
}

// extractWhole is Extract of a small bundle. It decodes and checks everything, unless gradual
// allows less, and keeps the result for the next call until the memory is required. If failed is not
// nil, the batch compares the hash later.
func (r *Reader) extractWhole(ctx context.Context, ranges []Range, failed func(error)) error {
	need := r.h.RawSize
	if r.gradual {
		need = 0
		for _, g := range ranges {
			need = max(need, g.end())
		}
	}
	whole, unchecked, err := r.decodeUpTo(ctx, need, r.o.Hash == HashAuto)
	if err == nil && unchecked && failed == nil {
		err = r.checkSmall(ctx, whole)
	}
	if err != nil {
		return err
	}
	raw := whole.bytes()
	if unchecked && failed != nil {
		r.o.Batch.later(waiting{r, raw, failed})
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

// small holds all raw bytes of a small bundle, or the first of them.
type small struct {
	mu     sync.Mutex
	raw    []byte
	hashed bool      // whether the hash was compared
	rest   *unpacker // decodes the bytes after raw; nil without such bytes
}

// decodeWhole returns the raw bytes of a small bundle, checked, see decodeUpTo.
func (r *Reader) decodeWhole(ctx context.Context, hash bool) ([]byte, error) {
	whole, unchecked, err := r.decodeUpTo(ctx, r.h.RawSize, hash)
	if err == nil && unchecked {
		err = r.checkSmall(ctx, whole)
	}
	if err != nil {
		return nil, err
	}
	return whole.bytes(), nil
}

// checkSmall compares the hash of a small bundle, all of which is decoded.
func (r *Reader) checkSmall(ctx context.Context, whole *small) error {
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if whole.hashed {
		return nil
	}
	err := r.checkRaw(ctx, whole.raw)
	whole.hashed = err == nil
	return err
}

// decodesGradually reports whether the blocks of a small bundle are decoded as far as is required,
// and its hash is compared if that includes the last block: for one of many in the form that LLVM
// writes, because the hash takes longer than decoding.
func (r *Reader) decodesGradually() bool {
	if r.o.Hash != HashProof || r.o.Batch == nil || r.h.RawSize <= maxBlock || r.h.RawSize > wholeMost || r.index != nil || !r.likeLLVM() {
		return false
	}
	f, err := frameAt(r.data, r.h.DataOffset)
	return err == nil && f.walk(r.data) == nil && f.end == int64(len(r.data))
}

// decodeUpTo decodes the first n raw bytes of a small bundle. If this decodes the last block, it reports
// whether the hash must be compared: if hash is set, and for frames without checksums, which the
// decoder compares in less time.
func (r *Reader) decodeUpTo(ctx context.Context, n int64, hash bool) (whole *small, unchecked bool, err error) {
	if whole, err = r.decodeSmall(ctx); err != nil {
		return nil, false, err
	}
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if err := whole.upTo(n); err != nil {
		return nil, false, err
	}
	if !whole.rest.last() {
		return whole, false, nil
	}
	if err := whole.upTo(r.h.RawSize); err != nil {
		return nil, false, err
	}
	if whole.hashed || hash || r.gradual {
		return whole, !whole.hashed, nil
	}
	form, err := r.form()
	return whole, form != checksums, err
}

// decodeHead returns the first n raw bytes of a small bundle, unchecked.
func (r *Reader) decodeHead(ctx context.Context, n int64) ([]byte, error) {
	whole, err := r.decodeSmall(ctx)
	if err != nil {
		return nil, err
	}
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if err := whole.upTo(n); err != nil {
		return nil, err
	}
	return whole.raw[:n:n], nil
}

// unpacker decodes the frame of a small bundle block by block.
type unpacker struct {
	f   *frame
	src *spliced // what the decoder has not read yet
	d   *zstd.Decoder
	err error // that ended the decoding
}

// unpack starts to decode f.
func (r *Reader) unpack(f *frame) (*unpacker, error) {
	src, err := f.reader(r.data, f.size)
	if err != nil {
		return nil, err
	}
	u := &unpacker{f: f, src: src, d: decoders.Get().(*zstd.Decoder)}
	if err := u.d.Reset(src); err != nil {
		u.close()
		return nil, zstdError(f, err)
	}
	return u, nil
}

// last reports whether the last block is decoded.
func (u *unpacker) last() bool { return u == nil || len(u.src[1]) == 0 }

// close ends the use of the decoder. Closing a nil unpacker has no effect.
func (u *unpacker) close() {
	if u != nil && u.d != nil {
		_ = u.d.Reset(nil) // releases the source
		decoders.Put(u.d)
		u.d = nil
	}
}

// bytes returns the bytes decoded so far.
func (s *small) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw
}

// upTo decodes the first n raw bytes, if they are not decoded yet. It requires mu.
func (s *small) upTo(n int64) error {
	u, have := s.rest, len(s.raw)
	if u == nil || int64(have) >= n {
		return nil
	}
	if u.err != nil {
		return u.err
	}
	got, err := io.ReadFull(u.d, s.raw[have:n])
	if err == nil && n == u.f.size {
		// The frame must end here.
		var more [1]byte
		switch k, end := u.d.Read(more[:]); {
		case k > 0:
			err = zstd.ErrFrameSizeExceeded
		case end != io.EOF:
			err = end
		}
	} else if err == io.EOF || err == io.ErrUnexpectedEOF && u.last() {
		err = zstd.ErrFrameSizeMismatch
	}
	s.raw = s.raw[:have+got]
	if err != nil {
		u.err = zstdError(u.f, err)
		return u.err
	}
	if n == u.f.size {
		u.close()
		s.rest = nil
	}
	return nil
}

// decoderRoom is the number of bytes that the decoder may overwrite after its
// output, so that it can copy matches without a check for the end.
const decoderRoom = 16

// decodeSmall decodes a small bundle, or returns the kept result of an earlier
// call. A bundle that is decoded gradually may lack bytes, see small.upTo.
func (r *Reader) decodeSmall(ctx context.Context) (*small, error) {
	r.wholeMu.Lock()
	defer r.wholeMu.Unlock()
	if whole := r.whole.Value(); whole != nil {
		return whole, nil
	}
	spans, known, err := r.spans(r.h.RawSize)
	if err != nil {
		return nil, err
	}
	whole := new(small)
	if n := int(r.h.RawSize) + decoderRoom; r.o.Batch != nil {
		whole.raw = r.o.Batch.take(r, n)
	} else {
		whole.raw = make([]byte, 0, n)
	}
	if r.gradual {
		if whole.rest, err = r.unpack(&spans[0].frame); err != nil {
			return nil, err
		}
	} else if known {
		whole.raw = whole.raw[:r.h.RawSize]
		for i := range spans {
			s := &spans[i]
			if err := r.decodeFrame(&s.frame, whole.raw[s.raw:s.rawEnd()], decoderRoom); err != nil {
				return nil, err
			}
		}
	} else {
		err := r.stream(ctx, r.h.RawSize, func(p []byte) error {
			whole.raw = append(whole.raw, p...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	r.whole = weak.Make(whole)
	if r.o.Batch != nil {
		r.kept = whole
	}
	return whole, nil
}

// forget ends the use of memory of the batch.
func (r *Reader) forget() {
	r.o.Batch = nil
	if whole := r.kept; whole != nil {
		r.kept, r.whole = nil, weak.Pointer[small]{}
		whole.rest.close()
		whole.rest = nil
	}
}
