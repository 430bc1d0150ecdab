package longzstd

import (
	"context"
	"encoding/binary"
	"io"
	"runtime/debug"
)

// maxWindow is the largest window of a frame and so the farthest a match may
// reach. LLVM, libzstd (zstd -d --long=31) and klauspost/compress take it.
const maxWindow = 1<<31 - 1<<20

const frameMagic = 0xFD2FB528

// appendFrameHeader appends the header of a frame, RFC 8878 section 3.1.1.1, whose
// content is size bytes. The window is all of it up to 2 GiB.
func appendFrameHeader(dst []byte, size uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, frameMagic)
	const singleSegment = 1 << 5
	desc, fcs := byte(singleSegment), 0
	switch {
	case size < 256:
		fcs = 1
	case size < 1<<16+256:
		desc, fcs = desc|1<<6, 2
		size -= 256
	case size < 1<<32:
		desc, fcs = desc|2<<6, 4
	default:
		desc, fcs = desc|3<<6, 8
	}
	if size > maxWindow {
		desc &^= singleSegment
		dst = append(dst, desc, (31-10)<<3)
	} else {
		dst = append(dst, desc)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], size)
	return append(dst, b[:fcs]...)
}

// Encode appends one zstd frame holding src to dst and returns the result. The
// frame states the content size and has no checksum. Its bytes depend on src
// and level alone. src is read in place: besides the result, Encode needs a few
// MiB. The error is ctx's, if that ends first.
func Encode(ctx context.Context, dst, src []byte, level Level) ([]byte, error) {
	err := encode(ctx, src, effortFor(level, len(src)), 1, func(w *blockWriter, b *block) error {
		if b == nil {
			dst = appendFrameHeader(dst, uint64(len(src)))
		} else {
			dst = w.append(dst, src, b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// flushSize is about how much EncodeTo writes at a time.
const flushSize = 1 << 20

// EncodeTo writes the frame that Encode makes of src and level to w and returns
// its size. With more than one core it finds matches on one and codes them on
// another; the bytes are the same. passed, if not nil, is told now and then up to
// where src was coded, what is before being read again only where matches refer
// to it. The error is ctx's, if that ends first, or w's.
func EncodeTo(ctx context.Context, w io.Writer, src []byte, level Level, cores int, passed func(n int)) (int64, error) {
	var size int64
	buf := make([]byte, 0, min(flushSize, len(src))+blockSize+1<<10)
	flush := func() error {
		n, err := w.Write(buf)
		size += int64(n)
		buf = buf[:0]
		return err
	}
	err := encode(ctx, src, effortFor(level, len(src)), cores, func(bw *blockWriter, b *block) error {
		if b == nil {
			buf = appendFrameHeader(buf, uint64(len(src)))
			return nil
		}
		buf = bw.append(buf, src, b)
		if passed != nil {
			passed(b.end)
		}
		if len(buf) >= flushSize || b.last {
			return flush()
		}
		return nil
	})
	return size, err
}

// queuedBlocks is how many blocks may wait between the parser and the writer.
const queuedBlocks = 8

// newBlock returns a block with room for as many sequences as most have.
func newBlock() *block { return &block{seqs: make([]sequence, 0, 24<<10)} }

// pipelineSize is the least size of a source for which a second core is worth while.
const pipelineSize = 2 * blockSize

// encode calls code for the frame's header (a nil block) and then for every block in order.
func encode(ctx context.Context, src []byte, e effort, cores int, code func(*blockWriter, *block) error) error {
	w := blockWriter{mostLeaves: e.leaves}
	w.reset()
	if err := code(&w, nil); err != nil {
		return err
	}
	if len(src) == 0 {
		return code(&w, &block{last: true})
	}
	p := newParser(src, e)
	defer p.release()
	if cores < 2 || len(src) < pipelineSize {
		for b := newBlock(); p.next(b); {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := code(&w, b); err != nil {
				return err
			}
		}
		return nil
	}

	free, ready := make(chan *block, queuedBlocks), make(chan *block, queuedBlocks)
	for range queuedBlocks {
		free <- newBlock()
	}
	var fault any // a panic of the parser: src may be a file that was cut short
	go func() {
		defer close(ready)
		debug.SetPanicOnFault(true)
		defer func() { fault = recover() }()
		for b := range free {
			if !p.next(b) {
				return
			}
			ready <- b
		}
	}()
	var err error
	for b := range ready {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = code(&w, b)
		}
		if err == nil {
			free <- b
		} else if free != nil {
			// The parser ends when it asks for the next block; take what it has.
			close(free)
			free = nil
		}
	}
	if fault != nil {
		panic(fault)
	}
	return err
}
