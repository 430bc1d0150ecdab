package ccob

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// HashCheck selects how raw bytes are checked, in addition to the checks of the
// compression format.
type HashCheck int

const (
	// HashAuto checks every byte that is read, if this is possible at the speed of decoding:
	// with an index, with checksums of frames, or for a size of at most 1 MiB. Other bundles
	// are checked with the hash of the header, except those in the form that LLVM writes, a
	// single frame: Decode compares their hash, Extract compares nothing.
	HashAuto HashCheck = iota
	// HashProof is HashAuto for many bundles, such as the members of an archive.
	// For small bundles whose frames all have checksums, it does not also compare
	// the hash, which would take longer than decoding. With Options.Batch, Extract
	// decodes small bundles in the form that LLVM writes only up to the block with
	// the end of the last range, and compares the hash if that is the last block.
	HashProof
	// HashFull always decodes everything and compares the MD5 hash of the header.
	// The hash is computed in parallel with decoding, at less than 1 GB/s.
	HashFull
	// HashNone compares nothing.
	HashNone
)

// auto reports whether the check depends on what the bundle contains.
func (h HashCheck) auto() bool { return h == HashAuto || h == HashProof }

// Options are the options for reading.
type Options struct {
	// Lenient accepts what LLVM accepts: any hash, a raw size that is too large,
	// and a wrong file size.
	Lenient bool
	// Hash selects how the raw bytes are checked. Lenient implies HashNone.
	Hash HashCheck
	// Batch, if not nil, keeps the decoded bytes of a small bundle until Batch.Next,
	// for callers that read the header and then contents.
	Batch *Batch
	// MaxSize is the largest raw size to decode; 0 means any size that is possible
	// for the compressed data.
	MaxSize int64
	// Budget limits the cores and the memory. If nil, everything runs on one core.
	Budget *budget.Budget
}

// orOneCore returns b, or a budget with a single core if b is nil.
func orOneCore(b *budget.Budget) *budget.Budget {
	if b == nil {
		return budget.New(1, 1<<62)
	}
	return b
}

// Reader decodes one compressed bundle. Its methods can be called concurrently.
type Reader struct {
	data   []byte // the bundle, up to its end
	h      *Header
	o      Options
	budget *budget.Budget
	index  *index // nil if missing or inconsistent

	gradual bool // see decodesGradually

	mu     sync.Mutex
	prefix []byte // the longest prefix returned so far
	proof  proof

	wholeMu sync.Mutex
	whole   weak.Pointer[small]
	kept    *small // the target of whole, with Options.Batch
}

// Open parses the compressed bundle that data begins with and prepares to decode
// it. It does not decode anything. data must not change while the Reader is in
// use.
func Open(data []byte, o Options) (*Reader, error) {
	h, err := parse(data, o.Lenient)
	if err != nil {
		return nil, err
	}
	if o.MaxSize > 0 && h.RawSize > o.MaxSize {
		if !o.Lenient {
			return nil, fault(0, Other, "the uncompressed bundle has %d bytes, over the limit of %d", h.RawSize, o.MaxSize)
		}
		h.RawSize = o.MaxSize
	}
	if o.Lenient {
		o.Hash = HashNone
		if h.End < int64(len(data)) && !framesEnd(data[:h.End], h) {
			h.End = int64(len(data))
		}
	}
	r := &Reader{data: data[:h.End], h: h, o: o, budget: orOneCore(o.Budget)}
	if h.Version > 1 && h.Method == Zstd && o.Hash != HashNone {
		x := readIndex(data[h.DataOffset:h.End])
		if x != nil && x.raw == h.RawSize {
			if x.hash != h.Hash {
				return nil, fault(h.DataOffset-8, Other, "the header states hash 0x%016x, the index 0x%016x: one of them is damaged", h.Hash, x.hash)
			}
			r.index = x
		}
	}
	r.gradual = r.decodesGradually()
	return r, nil
}

// framesEnd reports whether the frames of a bundle are completely inside data.
func framesEnd(data []byte, h *Header) bool {
	if h.Method != Zstd {
		return false // unknown without decoding
	}
	for _, err := range frames(data, h.DataOffset) {
		if err != nil {
			return false
		}
	}
	return true
}

// Header returns the header of the bundle.
func (r *Reader) Header() Header { return *r.h }

// RawSize returns the uncompressed size of the bundle in bytes, as stated in
// its header. With Lenient there may be fewer.
func (r *Reader) RawSize() int64 { return r.h.RawSize }

// maxHead is the largest size of a plain bundle's header that is checked before
// use. A larger piece is not a header.
const maxHead = 16 << 20

// Prefix returns the first n raw bytes, or fewer if the bundle has fewer. For a bundle
// with an index, it returns at most the first piece, the header of the plain bundle. It
// decodes only the data that these bytes and their check require. The result must not
// be modified and, with Options.Batch, not used after Batch.Next.
func (r *Reader) Prefix(ctx context.Context, n int64) (_ []byte, err error) {
	defer guard.Into(&err)()
	n = min(max(n, 0), r.h.RawSize)
	proof, err := r.proofFor(false)
	if err != nil {
		return nil, err
	}
	var head int64
	if proof == byIndex {
		if head = r.index.head(); head == 0 {
			return nil, fault(r.h.DataOffset, Other, "the index has no header of the uncompressed bundle: the data is damaged")
		}
		if head <= maxHead {
			n = min(n, head)
		} else {
			head = 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prefix != nil && int64(len(r.prefix)) >= n {
		return r.prefix[:n:n], nil
	}
	var out []byte
	if n <= smallWindow {
		out, err = r.readPrefix(ctx, proof, n, head)
	} else {
		// While a buffer grows, it is in memory twice.
		err = r.budget.WithBytes(ctx, 2*n, func(ctx context.Context) (err error) {
			out, err = r.readPrefix(ctx, proof, n, head)
			return err
		})
	}
	if err != nil {
		return out, err
	}
	if len(out) <= keptPrefix {
		r.prefix = out
	}
	n = min(n, int64(len(out))) // there may be fewer bytes than the header states, see Lenient
	return out[:n:n], nil
}

// keptPrefix is the largest size of a prefix that is kept for the next call, limited
// because a file may have very many bundles.
const keptPrefix = 64 << 10

// readPrefix is Prefix for bytes that were not kept. It also decodes the header of the bundle,
// of head bytes, if the index checks it.
func (r *Reader) readPrefix(ctx context.Context, proof proof, n, head int64) (out []byte, err error) {
	take := func(p []byte) error {
		out = append(out, p...)
		return nil
	}
	switch proof {
	case byIndex:
		if err = r.stream(ctx, max(n, head), take); err == nil && head > 0 {
			err = r.index.pieces[0].check(xxhash.Sum64(out[:head]))
		}
	case unproved:
		if r.o.Batch != nil && r.o.Hash.auto() && r.h.RawSize <= wholeMost {
			// Reading contents decodes everything. A fault may be in data that is never
			// read.
			if raw, err := r.readSmall(ctx, n, checkNothing, nil); err == nil {
				return raw, nil
			}
		}
		err = r.stream(ctx, n, take)
	case atOnce:
		var raw []byte
		if raw, err = r.readSmall(ctx, r.h.RawSize, checkFrames, nil); err == nil {
			if r.o.Batch != nil {
				return raw[:n:n], nil
			}
			out = slices.Clone(raw[:n])
		}
	default:
		err = r.extract(ctx, proof, []Range{{0, n, writerFunc(take)}}, nil)
	}
	return out, err
}

// writerFunc is a function that implements io.Writer.
type writerFunc func(p []byte) error

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// Range is a range of the raw bytes and its destination.
type Range struct {
	Offset, Size int64
	// W receives the bytes in order, from one goroutine. If it is a content.Sink, it
	// receives as few pieces as possible.
	W interface{ Write([]byte) (int, error) }
}

func (r Range) end() int64 { return r.Offset + r.Size }

// checkRanges reports an error for ranges outside the raw bytes, and for those
// that are not in the index.
func (r *Reader) checkRanges(ranges []Range) error {
	for _, g := range ranges {
		if g.Offset < 0 || g.Size < 0 || g.Offset > r.h.RawSize || g.Size > r.h.RawSize-g.Offset {
			return fmt.Errorf("range at 0x%x of %d bytes is not inside the %d bytes of the uncompressed bundle", uint64(g.Offset), g.Size, r.h.RawSize)
		}
		if r.index == nil || g.Size == 0 || g.Offset == 0 && g.Size == r.h.RawSize {
			continue
		}
		if p := r.index.find(g.Offset); p == nil || p.size != g.Size {
			return fault(0, Other, "raw bytes 0x%x to 0x%x are not an entry in the index: the header of the uncompressed bundle is damaged", g.Offset, g.end())
		}
	}
	return nil
}

// fan distributes raw bytes, which arrive in order, to the ranges that contain
// them.
type fan struct {
	pos    int64
	ranges []Range // by offset

	checks []*indexCheck // of ranges; nil without an index
}

// newFan returns a fan whose first byte is at pos.
func newFan(pos int64, ranges []Range, x *index) *fan {
	f := &fan{pos: pos, ranges: ranges}
	if x == nil {
		return f
	}
	f.checks = make([]*indexCheck, len(ranges))
	for i, g := range ranges {
		f.checks[i] = x.from(g.Offset)
	}
	return f
}

// write distributes the next bytes.
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

// deliver writes the next bytes of range i, and checks the pieces in it at their ends.
func (f *fan) deliver(i int, b []byte) error {
	if f.checks != nil {
		if err := f.checks[i].write(b); err != nil {
			return err
		}
	}
	if w := f.ranges[i].W; w != nil {
		_, err := w.Write(b)
		return err
	}
	return nil
}
