package longzstd

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"sync"
)

// maxWindow is the largest window of a frame and so the farthest a match may
// reach. LLVM, libzstd (zstd -d --long=31) and klauspost/compress take it.
const maxWindow = 1<<31 - 1<<20

const frameMagic = 0xFD2FB528

// appendFrameHeader appends the header of a frame, RFC 8878 section 3.1.1.1, whose
// content is size bytes. The window is all of it up to 2 GiB. A size that forms the mark is not stated.
func appendFrameHeader(dst []byte, size uint64) []byte {
	const largestWindow = (31 - 10) << 3
	if sized := appendSizedFrameHeader(dst, size, largestWindow); !marked(sized, len(dst)) {
		return sized
	}
	dst = binary.LittleEndian.AppendUint32(dst, frameMagic)
	return append(dst, 0, largestWindow)
}

func appendSizedFrameHeader(dst []byte, size uint64, largestWindow byte) []byte {
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
		dst = append(dst, desc, largestWindow)
	} else {
		dst = append(dst, desc)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], size)
	return append(dst, b[:fcs]...)
}

// Encode appends one zstd frame holding src to dst and returns the result. The
// frame states the content size, has no checksum, and nowhere in it are the four bytes
// "CCOB". Its bytes depend on src
// and level alone. src is read in place: besides the result, Encode needs a few
// MiB. The error is ctx's, if that ends first.
func Encode(ctx context.Context, dst, src []byte, level Level) ([]byte, error) {
	err := encode(ctx, src, effortFor(level, len(src)), Options{}, func(w *blockWriter, b *block) error {
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

// Options are those of EncodeTo.
type Options struct {
	Level Level
	// Cores is how many cores to use: with more than one, matches are found on one and
	// coded on another. The bytes are the same.
	Cores int
	// Passed, if not nil, is called from time to time with the number of encoded bytes of
	// the source. The encoder reads these bytes again only if matches reference them. Calls
	// come from several goroutines, one at a time.
	Passed func(n int)
	// Beside, if not nil, is work of the caller's on the same bytes to do meanwhile, such as
	// hashing them, where there are two cores for all of it. A call does a little of it, tens
	// of kilobytes, and returns up to where in the source it is now, or [BesideDone]. Calls
	// come from the caller's goroutine. EncodeTo may return before the work is done.
	Beside func() int
}

// BesideDone is what [Options.Beside] returns when there is nothing more to do.
const BesideDone = math.MaxInt

// EncodeTo writes the frame that Encode makes of src to w and returns its size. The
// error is the cause of ctx, if that ends first, or w's.
func EncodeTo(ctx context.Context, w io.Writer, src []byte, o Options) (int64, error) {
	var size int64
	buf := make([]byte, 0, min(flushSize, len(src))+blockSize+1<<10)
	written := 0 // what of buf was
	flush := func() error {
		n, err := w.Write(buf[written:])
		size += int64(n)
		written = copy(buf, buf[max(0, len(buf)-markSpan):])
		buf = buf[:written]
		return err
	}
	err := encode(ctx, src, effortFor(o.Level, len(src)), o, func(bw *blockWriter, b *block) error {
		if b == nil {
			buf = appendFrameHeader(buf, uint64(len(src)))
			return nil
		}
		buf = bw.append(buf, src, b)
		if o.Passed != nil {
			o.Passed(b.end)
		}
		if len(buf) >= flushSize || b.last {
			return flush()
		}
		return nil
	})
	return size, err
}

// blocks are blocks for reuse, with room for as many sequences as nearly all have.
var blocks = sync.Pool{New: func() any { return &block{seqs: make([]sequence, 0, 24<<10)} }}

// pipelineSize is the least size of a source for which a second core is worth while.
const pipelineSize = 2 * blockSize

var filled sync.Once

// prepare fills the tables of the package, which only encoders need.
func prepare() {
	filled.Do(func() {
		fillCodes()
		fillLogs()
		buildPredefined()
	})
}

// encode calls code for the frame's header (a nil block) and then for every block in order,
// one at a time.
func encode(ctx context.Context, src []byte, e effort, o Options, code func(*blockWriter, *block) error) error {
	prepare()
	w := blockWriter{mostLeaves: e.leaves}
	w.reset()
	if err := code(&w, nil); err != nil {
		return err
	}
	if len(src) == 0 {
		return code(&w, &block{last: true})
	}
	checked := func(b *block) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return code(&w, b)
	}
	if o.Cores >= 2 && len(src) >= pipelineSize {
		return newPipeline(src, e, checked).run(o.Beside)
	}
	p := newParser(src, e)
	defer p.release()
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	for p.next(b) {
		if err := checked(b); err != nil {
			return err
		}
	}
	return nil
}
