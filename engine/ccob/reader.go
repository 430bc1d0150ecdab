package ccob

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
)

// HashCheck says how raw bytes are checked beyond what the compression itself
// notices.
type HashCheck int

const (
	// HashAuto checks every byte that is read, if the bundle has what that takes
	// at the speed of decoding: an index, checksums of frames, or a size of at most
	// a MiB. Bundles that have neither are checked by the hash of the header, but for those in
	// the form that LLVM writes, one frame and nothing else: Decode
	// compares their hash, Extract compares nothing.
	HashAuto HashCheck = iota
	// HashProof is HashAuto for many bundles, such as the members of an archive: of
	// small bundles whose frames all have checksums, the hash, which takes longer
	// than decoding, is not compared as well.
	HashProof
	// HashFull always decodes everything and compares the MD5 hash of the
	// header. It runs beside decoding, at less than 1 GB/s.
	HashFull
	// HashNone compares nothing.
	HashNone
)

// auto reports whether contents are checked by what the bundle has.
func (h HashCheck) auto() bool { return h == HashAuto || h == HashProof }

// Options are those of reading.
type Options struct {
	// Lenient takes what LLVM takes: any hash, a raw size that is too large and
	// a file size that is wrong.
	Lenient bool
	// Hash says how the raw bytes are checked. Lenient implies HashNone.
	Hash HashCheck
	// Keep has the Reader keep what it decodes of a small bundle until Forget, for
	// callers that read the header and then contents.
	Keep bool
	// MaxSize is the largest raw size to decode; 0 means any that the size of
	// the compressed data makes possible.
	MaxSize int64
	// Budget gives cores and memory. Without one, everything runs on one core.
	Budget *budget.Budget
}

// orOneCore returns b, or one of a single core.
func orOneCore(b *budget.Budget) *budget.Budget {
	if b == nil {
		return budget.New(1, 1<<62)
	}
	return b
}

// Reader decodes one compressed bundle. Its methods can be called from several
// goroutines at once.
type Reader struct {
	data   []byte // the bundle, up to its end
	h      *Header
	o      Options
	budget *budget.Budget
	index  *index // nil: none, or not to be believed

	mu     sync.Mutex
	prefix []byte // the longest that was asked for
	proof  proof

	wholeMu sync.Mutex
	whole   weak.Pointer[small]
	kept    *small // what whole points to, with Options.Keep
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
			return nil, fault(0, Other, "the bundle has %d bytes uncompressed, over the limit of %d", h.RawSize, o.MaxSize)
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
	return r, nil
}

// framesEnd reports whether the frames of a bundle are whole inside data.
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

// Indexed reports whether the bundle has an index, so that HashAuto checks what is
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

// maxHead is the largest header of a plain bundle that is checked before use; what is larger is none.
const maxHead = 16 << 20

// Prefix returns the first n raw bytes, fewer if the bundle has fewer; of a bundle with
// an index, no more than its first piece, the header of the plain bundle. It decodes no
// more than these bytes and their check take. The result must not be written to, and
// with Options.Keep not be used after Forget.
func (r *Reader) Prefix(ctx context.Context, n int64) ([]byte, error) {
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
		// A buffer that grows is in memory twice.
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
	n = min(n, int64(len(out))) // there may be less than the header states, see Lenient
	return out[:n:n], nil
}

// keptPrefix is the longest prefix that is kept for the next call. A file may have very
// many bundles.
const keptPrefix = 64 << 10

// readPrefix is Prefix for what was not kept. It also decodes the header of the bundle, of head
// bytes, if that is checked by the index.
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
		if r.o.Keep && r.o.Hash.auto() && r.h.RawSize <= wholeMost {
			// Contents take all of it. A fault may be where nobody looks.
			if whole, err := r.decodeSmall(ctx); err == nil {
				return whole.raw[:n:n], nil
			}
		}
		err = r.stream(ctx, n, take)
	case atOnce:
		var raw []byte
		if raw, err = r.decodeWhole(ctx, false); err == nil {
			if r.o.Keep {
				return raw[:n:n], nil
			}
			out = slices.Clone(raw[:n])
		}
	default:
		err = r.extract(ctx, proof, []Range{{0, n, writerFunc(take)}})
	}
	return out, err
}

// writerFunc is a function as a writer.
type writerFunc func(p []byte) error

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// Range is a range of the raw bytes and who wants it.
type Range struct {
	Offset, Size int64
	// W is given the bytes in order by one goroutine. If it is a files.Sink, they
	// come in as few pieces as there are.
	W interface{ Write([]byte) (int, error) }
}

func (r Range) end() int64 { return r.Offset + r.Size }

// checkRanges refuses ranges outside the raw bytes, and those that the index does not have.
func (r *Reader) checkRanges(ranges []Range) error {
	for _, g := range ranges {
		if g.Offset < 0 || g.Size < 0 || g.Offset > r.h.RawSize || g.Size > r.h.RawSize-g.Offset {
			return fmt.Errorf("range at 0x%x of %d bytes is not inside the %d bytes of the uncompressed bundle", uint64(g.Offset), g.Size, r.h.RawSize)
		}
		if r.index == nil || g.Size == 0 || g.Offset == 0 && g.Size == r.h.RawSize {
			continue
		}
		if p := r.index.find(g.Offset); p == nil || p.size != g.Size {
			return fault(0, Other, "raw bytes 0x%x to 0x%x are no entry by the index: the header of the uncompressed bundle is damaged", g.Offset, g.end())
		}
	}
	return nil
}

// fan hands raw bytes that come in order to the ranges that want them.
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
