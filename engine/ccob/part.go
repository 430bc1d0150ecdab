package ccob

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/files"
)

// A compressed bundle can be made of parts that were compressed on their own, so
// that a change of one entry compresses its part only:
//
//   - [EncodePart] compresses one or more entries to a part: a zstd frame and an
//     index of it. It does not depend on where in the bundle the part will lie.
//   - [Hasher] computes the hash. It needs all raw bytes in order, so its state is
//     a part too: the state after entry n follows from that after entry n-1 and
//     entry n. A change of entry n hashes again from there on, on average half of
//     the raw bytes, beside the compression of the part that changed.
//   - [Assemble] copies the parts behind each other, with neither the raw bytes nor
//     a decoder at hand. The zeros that align entries become frames of a few bytes.

// EncodePart compresses the pieces, whose offsets count from the beginning of the
// part, to one zstd frame, and writes it to out with its index.
func EncodePart(ctx context.Context, out files.Sink, pieces []Piece, o EncodeOptions) error {
	size, err := checkPieces(pieces)
	if err != nil {
		return err
	}
	e, err := encodeFrame(ctx, lane{newLanes(out, 1), 0}, budget(o.Budget), pieces, 0, size, o.Level, true)
	if err != nil {
		return err
	}
	x := index{raw: size, pieces: e.pieces}
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

// Placed is a part and where its raw bytes begin in the plain bundle.
type Placed struct {
	Offset int64
	Part   *Part
}

// Assemble writes the compressed bundle that consists of the parts, in order, and of
// the head, the first piece of the plain bundle, which is its header. hash must
// have seen the whole plain bundle.
func Assemble(ctx context.Context, out files.Sink, head Piece, parts []Placed, hash *Hasher, o EncodeOptions) (Stats, error) {
	size := hash.Size()
	s, err := newStats(o.Version, size)
	if err != nil {
		return s, err
	}
	var frame files.Buffer
	first, err := encodeFrame(ctx, lane{newLanes(&frame, 1), 0}, budget(o.Budget), []Piece{head}, 0, head.end(), o.Level, true)
	if err != nil {
		return s, err
	}
	data := []files.Content{files.Memory(frame.Bytes())}
	x := index{pieces: first.pieces}
	s.Frames, s.Hash, s.Indexed = 1, hash.Sum(), true
	pos := head.end()
	fill := func(to int64) {
		if to > pos {
			data = append(data, files.Memory(zeroFrame(nil, to-pos)))
			s.Frames++
		}
		pos = to
	}
	for i, p := range parts {
		if p.Offset < pos || p.Offset > size || p.Part.RawSize > size-p.Offset {
			return s, fmt.Errorf("part %d of %d: raw bytes from 0x%x, %d of them, are not between 0x%x, where the one before ends, and 0x%x, the end of what was hashed",
				i, len(parts), uint64(p.Offset), p.Part.RawSize, pos, size)
		}
		fill(p.Offset)
		data = append(data, p.Part.frames)
		s.Frames += p.Part.count
		for _, q := range p.Part.index.pieces {
			q.off += p.Offset
			x.pieces = append(x.pieces, q)
		}
		pos += p.Part.RawSize
	}
	if pos > size {
		return s, fmt.Errorf("the header has %d bytes, only %d were hashed", pos, size)
	}
	fill(size)
	x.raw, x.hash = s.RawSize, s.Hash
	data = append(data, files.Memory(x.append(nil)))
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
