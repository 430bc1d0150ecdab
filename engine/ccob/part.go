package ccob

import (
	"context"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// A compressed bundle can be assembled from parts that are compressed separately.
// After a change of one entry, only its part is compressed again:
//
//   - [EncodePart] compresses adjacent entries, those of a family, to a part. The
//     result does not depend on the place of the part in the bundle.
//   - [EncodePlan] reads the whole plain bundle and writes its plan: the header, the
//     division into frames, and the checksums. Most of the time is for the hash, about
//     a second per GB, while other actions compress the parts that changed.
//   - [Assemble] copies the parts in the order of the plan. It decodes parts that the
//     plan has in one frame, and compresses them together.
//
// If every frame of the plan that is worth a part has one, the result is equal to that of
// [Encode] for the whole bundle, byte by byte.

// EncodePart compresses the pieces and the zeros after them up to size, and writes the
// result to out with an index. The offsets of the pieces are relative to the part. The
// result is one zstd frame, or several if the pieces are large (see FramesAuto).
func EncodePart(ctx context.Context, out content.Sink, pieces []content.Part, size int64, o EncodeOptions) (err error) {
	defer guard.Into(&err)()
	end, err := checkPieces(pieces)
	if err != nil {
		return err
	}
	size = max(size, end)
	b := orOneCore(o.Budget)
	cuts := halves(pieces)
	starts := []int64{0}
	for _, c := range cuts[1:] {
		starts = append(starts, c[0].Offset)
	}
	starts = append(starts, size)
	written := newLanes(out, len(cuts))
	sums := make([]uint64, len(pieces))
	err = b.Each(ctx, len(cuts)+len(pieces), func(ctx context.Context, i int) (err error) {
		if i < len(cuts) {
			_, err = encodeFrame(ctx, lane{written, i}, b, cuts[i], starts[i], starts[i+1], o.Level, nil, nil)
			return err
		}
		i -= len(cuts)
		sums[i], err = sum(ctx, pieces[i].Content, func([]byte) error { return nil })
		return err
	})
	if err != nil {
		return err
	}
	x := index{raw: size, pieces: indexPieces(pieces, sums)}
	_, err = out.Write(x.append(nil))
	return err
}

// indexPieces returns the non-empty pieces with their XXH64.
func indexPieces(pieces []content.Part, sums []uint64) []indexPiece {
	var list []indexPiece
	for i, p := range pieces {
		if n := p.Content.Len(); n > 0 {
			list = append(list, indexPiece{p.Offset, n, sums[i]})
		}
	}
	return list
}

// sum returns the XXH64 of c and calls pass with its bytes. It reads c without
// mapping it.
func sum(ctx context.Context, c content.Content, pass func([]byte) error) (uint64, error) {
	d := xxhash.New()
	buf := make([]byte, min(hashRead, c.Len()))
	for off := int64(0); off < c.Len(); {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		b := buf[:min(c.Len()-off, hashRead)]
		if _, err := c.ReadAt(b, off); err != nil {
			return 0, err
		}
		d.Write(b)
		if err := pass(b); err != nil {
			return 0, err
		}
		off += int64(len(b))
	}
	return d.Sum64(), nil
}

// Part is the output of EncodePart.
type Part struct {
	RawSize int64           // decompressed size in bytes
	data    content.Content // without the index
	frames  []*frame
	index   *index
}

// ParsePart checks the structure of a part without decoding it.
func ParsePart(c content.Content) (_ *Part, err error) {
	defer guard.Into(&err)()
	data := c.Mapped(guard.Inside)
	x := readIndex(data)
	if x == nil {
		return nil, fault(0, Other, "not a part of a compressed bundle: it does not end with an index")
	}
	p := &Part{RawSize: x.raw, data: c.Slice(0, int64(len(data))-x.size), index: x}
	raw := int64(0)
	for f, err := range frames(p.data.Mapped(guard.Inside), 0) {
		if err == nil {
			err = f.walk(p.data.Mapped(guard.Inside))
		}
		if err != nil {
			return nil, err
		}
		if f.skippable || f.size < 0 || f.size > x.raw-raw {
			return nil, fault(f.off, Other, "a frame lies outside of the part of 0x%x raw bytes", x.raw)
		}
		raw += f.size
		p.frames = append(p.frames, f)
	}
	if raw != x.raw {
		return nil, fault(0, Other, "the part has %d raw bytes, its index states %d", raw, x.raw)
	}
	return p, nil
}

// decode decodes the part into dst, which has its RawSize.
func (p *Part) decode(ctx context.Context, dst []byte) error {
	r := Reader{data: p.data.Mapped(guard.Inside)}
	for _, f := range p.frames {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.decodeFrame(f, dst[:f.size], 0); err != nil {
			return err
		}
		dst = dst[f.size:]
	}
	return nil
}
