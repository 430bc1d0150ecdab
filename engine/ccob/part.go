package ccob

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/files"
)

// A compressed bundle can be made of parts that were compressed on their own, so
// that a change of one entry compresses its part only:
//
//   - [EncodePart] compresses one or more entries to a part: a zstd frame and an
//     index of it. It does not depend on where in the bundle the part will lie.
//   - [EncodePlan] reads the whole plain bundle and makes a plan of it: its header,
//     its hash, and an index. It takes as long as the hash does, about a second per
//     GB, and runs beside the compression of the parts that changed.
//   - [Assemble] copies the parts behind each other as the plan says, with neither
//     the raw bytes nor a decoder at hand. The zeros that align entries become
//     frames of a few bytes.

// EncodePart compresses the pieces, whose offsets count from the beginning of the
// part, to one zstd frame, and writes it to out with its index.
func EncodePart(ctx context.Context, out files.Sink, pieces []Piece, o EncodeOptions) error {
	size, err := checkPieces(pieces)
	if err != nil {
		return err
	}
	b := budget(o.Budget)
	sums := make([]uint64, len(pieces))
	err = b.Each(ctx, 1+len(pieces), func(ctx context.Context, i int) (err error) {
		if i == 0 {
			_, err = encodeFrame(ctx, lane{newLanes(out, 1), 0}, b, pieces, 0, size, o.Level, nil)
		} else {
			sums[i-1], err = sum(ctx, pieces[i-1].Content)
		}
		return err
	})
	if err != nil {
		return err
	}
	x := index{raw: size, pieces: indexPieces(pieces, sums)}
	_, err = out.Write(x.append(nil))
	return err
}

// Part is what EncodePart wrote.
type Part struct {
	RawSize int64         // bytes it decompresses to
	frames  files.Content // without the index
	count   int
	index   *index
}

// ParsePart checks the structure of a part without decoding it.
func ParsePart(c files.Content) (*Part, error) {
	data := c.Bytes()
	x := readIndex(data)
	if x == nil {
		return nil, fault(0, "", "no part of a compressed bundle: it does not end with an index")
	}
	p := &Part{RawSize: x.raw, frames: c.Slice(0, int64(len(data))-x.frameSize()), index: x}
	raw := int64(0)
	for pos := int64(0); pos < p.frames.Len(); {
		f, err := frameAt(p.frames.Bytes(), pos)
		if err != nil {
			return nil, err
		}
		if err := f.walk(p.frames.Bytes()); err != nil {
			return nil, err
		}
		if f.skippable || f.size < 0 || f.size > x.raw-raw {
			return nil, fault(pos, "", "a frame that is not of the part of 0x%x raw bytes", x.raw)
		}
		raw += f.size
		pos = f.end
		p.count++
	}
	if raw != x.raw {
		return nil, fault(0, "", "the part has %d raw bytes, its index says %d", raw, x.raw)
	}
	return p, nil
}

// EncodePlan writes the plan of a plain bundle, given as its pieces in order. The
// first piece is the plain bundle's header.
func EncodePlan(ctx context.Context, out files.Sink, pieces []Piece, o EncodeOptions) error {
	size, err := checkPieces(pieces)
	if err != nil {
		return err
	}
	if len(pieces) == 0 || pieces[0].Offset != 0 {
		return errors.New("the plan of a bundle needs its header")
	}
	h := NewHasher()
	sums := make([]uint64, len(pieces))
	err = budget(o.Budget).Each(ctx, 1+len(pieces), func(ctx context.Context, i int) (err error) {
		if i == 0 {
			return h.Add(ctx, pieces...)
		}
		sums[i-1], err = sum(ctx, pieces[i-1].Content)
		return err
	})
	if err != nil {
		return err
	}
	x := index{raw: size, hash: h.Sum(), pieces: indexPieces(pieces, sums)}
	if err := out.Append(pieces[0].Content); err != nil {
		return err
	}
	_, err = out.Write(x.append(nil))
	return err
}

// indexPieces returns the pieces that are not empty with their XXH64.
func indexPieces(pieces []Piece, sums []uint64) []indexPiece {
	var list []indexPiece
	for i, p := range pieces {
		if n := p.Content.Len(); n > 0 {
			list = append(list, indexPiece{p.Offset, n, sums[i]})
		}
	}
	return list
}

// sum returns the XXH64 of c, which is read, not mapped.
func sum(ctx context.Context, c files.Content) (uint64, error) {
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
		off += int64(len(b))
	}
	return d.Sum64(), nil
}

// Plan is what EncodePlan wrote.
type Plan struct {
	head  files.Content
	index *index
}

// ParsePlan checks a plan.
func ParsePlan(c files.Content) (*Plan, error) {
	data := c.Bytes()
	x := readIndex(data)
	if x == nil {
		return nil, fault(0, "", "no plan of a compressed bundle: it does not end with an index")
	}
	p := &Plan{head: c.Slice(0, int64(len(data))-x.frameSize()), index: x}
	if len(x.pieces) == 0 || x.pieces[0].off != 0 || x.pieces[0].size != p.head.Len() || x.pieces[0].check(xxhash.Sum64(p.head.Bytes())) != nil {
		return nil, fault(0, "", "no plan of a compressed bundle: its header of %d bytes is not the one of its index", p.head.Len())
	}
	return p, nil
}

// Assemble writes the compressed bundle of a plan: the parts, in order, must have
// exactly the entries of the plan.
func Assemble(ctx context.Context, out files.Sink, plan *Plan, parts []*Part, o EncodeOptions) (Stats, error) {
	s, err := newStats(o.Version, plan.index.raw)
	if err != nil {
		return s, err
	}
	var frame files.Buffer
	head := Piece{Content: plan.head}
	if _, err := encodeFrame(ctx, lane{newLanes(&frame, 1), 0}, budget(o.Budget), []Piece{head}, 0, head.end(), o.Level, nil); err != nil {
		return s, err
	}
	data := []files.Content{files.Memory(frame.Bytes())}
	s.Frames, s.Hash, s.Indexed = 1, plan.index.hash, true
	pos, rest := head.end(), plan.index.pieces[1:]
	fill := func(to int64) {
		if to > pos {
			data = append(data, files.Memory(zeroFrame(nil, to-pos)))
			s.Frames++
		}
		pos = to
	}
	for i, p := range parts {
		n := len(p.index.pieces)
		if n == 0 {
			continue // empty entries
		}
		if n > len(rest) {
			return s, fmt.Errorf("part %d of %d has %d entries, the plan has %d more", i+1, len(parts), n, len(rest))
		}
		at := rest[0].off - p.index.pieces[0].off
		for k, q := range p.index.pieces {
			q.off += at
			if q != rest[k] {
				return s, fmt.Errorf("part %d of %d: %d bytes at 0x%x with XXH64 0x%016x, the plan has %d bytes at 0x%x with 0x%016x: the part is of another bundle, or in another place",
					i+1, len(parts), q.size, uint64(q.off), q.sum, rest[k].size, uint64(rest[k].off), rest[k].sum)
			}
		}
		if at < pos || p.RawSize > plan.index.raw-at || n < len(rest) && at+p.RawSize > rest[n].off {
			return s, fmt.Errorf("part %d of %d: its %d bytes at 0x%x reach into what lies beside it", i+1, len(parts), p.RawSize, uint64(at))
		}
		fill(at)
		data = append(data, p.frames)
		s.Frames += p.count
		pos, rest = at+p.RawSize, rest[n:]
	}
	if len(rest) > 0 {
		return s, fmt.Errorf("no part has the %d bytes at 0x%x of the plan", rest[0].size, rest[0].off)
	}
	fill(plan.index.raw)
	data = append(data, files.Memory(plan.index.append(nil)))
	for _, d := range data {
		s.DataSize += d.Len()
	}
	h, err := s.header()
	if err != nil {
		return s, err
	}
	for _, d := range append([]files.Content{files.Memory(h)}, data...) {
		if err := out.Append(d); err != nil {
			return s, err
		}
	}
	return s, nil
}
