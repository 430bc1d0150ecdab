package ccob

import (
	"context"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/files"
)

// HashCheck says how raw bytes are checked beyond what the compression itself
// notices.
type HashCheck int

const (
	// HashAuto checks what can be checked at the speed of decoding: with an
	// index every piece that is decoded whole; without, Decode compares the MD5
	// hash of the header and Extract compares nothing.
	HashAuto HashCheck = iota
	// HashFull always decodes everything and compares the MD5 hash of the
	// header. It runs beside decoding, at less than 1 GB/s.
	HashFull
	// HashNone compares nothing.
	HashNone
)

// Options are those of reading.
type Options struct {
	// Lenient takes what LLVM takes: any hash, a raw size that is too large and
	// a file size that is wrong.
	Lenient bool
	// Hash says how the raw bytes are checked. Lenient implies HashNone.
	Hash HashCheck
	// MaxSize is the largest raw size to decode; 0 means any that the size of
	// the compressed data makes possible.
	MaxSize int64
	// Budget gives cores and memory. Without one, everything runs on one core.
	Budget *files.Budget
}

// budget returns b, or one of a single core.
func budget(b *files.Budget) *files.Budget {
	if b == nil {
		return files.NewBudget(1, 1<<62)
	}
	return b
}

// Reader decodes one compressed bundle. Its methods can be called from several
// goroutines at once.
type Reader struct {
	data   []byte // the bundle, up to its end
	h      *Header
	o      Options
	budget *files.Budget
	index  *index // nil: none, or not to be believed

	mu     sync.Mutex
	prefix []byte // the longest that was asked for
}

// Open parses the compressed bundle that data begins with and prepares to decode
// it. Nothing is decoded yet. data must stay as it is while the Reader is in use.
func Open(data []byte, o Options) (*Reader, error) {
	h, err := parse(data, o.Lenient)
	if err != nil {
		return nil, err
	}
	if o.MaxSize > 0 && h.RawSize > o.MaxSize {
		if !o.Lenient {
			return nil, fault(0, "", "the bundle has %d bytes uncompressed, over the limit of %d", h.RawSize, o.MaxSize)
		}
		h.RawSize = o.MaxSize
	}
	if o.Lenient {
		o.Hash = HashNone
		if h.End < int64(len(data)) && !framesEnd(data[:h.End], h) {
			h.End = int64(len(data))
		}
	}
	r := &Reader{data: data[:h.End], h: h, o: o, budget: budget(o.Budget)}
	if h.Version > 1 && h.Method == Zstd && o.Hash != HashNone {
		x := readIndex(data[h.DataOffset:h.End])
		if x != nil && x.raw == h.RawSize {
			if x.hash != h.Hash {
				return nil, fault(h.DataOffset-8, "", "the header states hash 0x%016x, the index 0x%016x: one of them is damaged", h.Hash, x.hash)
			}
			r.index = x
		}
	}
	return r, nil
}

// framesEnd tells whether the frames of a bundle are whole inside data.
func framesEnd(data []byte, h *Header) bool {
	if h.Method != Zstd {
		return false // cannot be told without decoding
	}
	for pos := h.DataOffset; pos < int64(len(data)); {
		f, err := frameAt(data, pos)
		if err != nil || f.walk(data) != nil {
			return false
		}
		pos = f.end
	}
	return true
}

// Header returns the header of the bundle.
func (r *Reader) Header() Header { return *r.h }

// RawSize returns how many bytes the bundle has uncompressed, as its header
// states. With Lenient there may be fewer.
func (r *Reader) RawSize() int64 { return r.h.RawSize }

// Indexed tells whether the bundle has an index, so that HashAuto checks what is
// extracted.
func (r *Reader) Indexed() bool { return r.index != nil }

// Stats returns the sizes as -verbose tells them: those of the header, with the
// data as long as it is. Frames are not counted.
func (r *Reader) Stats() Stats {
	return Stats{
		Version: r.h.Version, Method: r.h.Method, Hash: r.h.Hash, RawSize: r.h.RawSize, Indexed: r.index != nil,
		FileSize: r.h.End, DataSize: r.h.End - r.h.DataOffset,
	}
}

// Prefix returns the first n raw bytes, fewer if the bundle has fewer. Only the
// blocks that hold them are decoded. The result must not be written to.
func (r *Reader) Prefix(ctx context.Context, n int64) ([]byte, error) {
	n = min(max(n, 0), r.h.RawSize)
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(len(r.prefix)) >= n {
		return r.prefix[:n:n], nil
	}
	var out []byte
	err := r.stream(ctx, n, func(p []byte) error {
		out = append(out, p...)
		return nil
	})
	if err == nil {
		r.prefix = out
	}
	return out, err
}

// Range is a range of the raw bytes and who wants it.
type Range struct {
	Offset, Size int64
	// W is given the bytes in order by one goroutine. If it is a files.Sink, they
	// come in as few pieces as there are.
	W interface{ Write([]byte) (int, error) }
}

func (r Range) end() int64 { return r.Offset + r.Size }

// checkRanges refuses ranges outside the raw bytes.
func (r *Reader) checkRanges(ranges []Range) error {
	for _, g := range ranges {
		if g.Offset < 0 || g.Size < 0 || g.Offset > r.h.RawSize || g.Size > r.h.RawSize-g.Offset {
			return fmt.Errorf("range at 0x%x of %d bytes is not inside the %d bytes of the uncompressed bundle", uint64(g.Offset), g.Size, r.h.RawSize)
		}
	}
	return nil
}

// fan hands raw bytes that come in order to the ranges that want them.
type fan struct {
	pos    int64
	ranges []Range // by offset

	index *index
	got   []int64 // bytes delivered to each range
	sums  []*xxhash.Digest
}

// newFan returns a fan whose first byte is at pos.
func newFan(pos int64, ranges []Range, x *index) *fan {
	f := &fan{pos: pos, ranges: ranges, index: x, got: make([]int64, len(ranges)), sums: make([]*xxhash.Digest, len(ranges))}
	if x == nil {
		return f
	}
	for i, g := range ranges {
		if p := x.find(g.Offset); p != nil && p.size == g.Size {
			f.sums[i] = xxhash.New()
		}
	}
	return f
}

// write takes the next bytes.
func (f *fan) write(b []byte) error {
	end := f.pos + int64(len(b))
	for i, g := range f.ranges {
		if g.Offset >= end {
			break
		}
		lo, hi := max(g.Offset, f.pos), min(g.end(), end)
		if lo >= hi {
			continue
		}
		if err := f.deliver(i, b[lo-f.pos:hi-f.pos]); err != nil {
			return err
		}
	}
	f.pos = end
	return nil
}

// deliver writes the next bytes of range i, and checks it with the last.
func (f *fan) deliver(i int, b []byte) error {
	g := f.ranges[i]
	f.got[i] += int64(len(b))
	if sum := f.sums[i]; sum != nil {
		sum.Write(b)
		if f.got[i] == g.Size {
			if err := f.index.find(g.Offset).check(sum.Sum64()); err != nil {
				return err
			}
		}
	}
	if g.W == nil {
		return nil
	}
	_, err := g.W.Write(b)
	return err
}
