package ccob

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Plan is the output of EncodePlan:
//
//	the header of the plain bundle
//	n × u64 raw offset at which a frame begins, the first 0
//	u32 n, u32 level, u64 whether a single frame gets an index
//	u64 XXH64 of the bytes from the first offset up to here
//	the index of the bundle; its hash is 0 if there is but one frame, whose bytes
//	Assemble has at hand
type Plan struct {
	head    content.Content
	starts  []int64
	level   Level
	indexed bool
	index   *index
}

// planTail is the size of the numbers after the starts of frames.
const planTail = 24

// EncodePlan writes the plan of a plain bundle, given as its pieces in order. The
// first piece is the plain bundle's header. The options Level and Frames must be those
// of the compressed bundle.
func EncodePlan(ctx context.Context, out content.Sink, pieces []content.Part, o EncodeOptions) (err error) {
	defer guard.Into(&err)()
	size, err := checkPieces(pieces)
	if err != nil {
		return err
	}
	if len(pieces) == 0 || pieces[0].Offset != 0 || pieces[0].Content.Len() == 0 {
		return errors.New("the plan of a bundle needs its header")
	}
	b := orOneCore(o.Budget)
	cuts, err := cut(ctx, b, pieces, o.Frames, o.Level)
	if err != nil {
		return err
	}
	x := index{raw: size}
	sums := make([]uint64, len(pieces))
	if len(cuts) > 1 {
		err = b.Each(ctx, 1, func(ctx context.Context, _ int) (err error) {
			x.hash, err = sumAndHash(ctx, pieces, sums, o.Done)
			return err
		})
	} else {
		err = b.Each(ctx, len(pieces), func(ctx context.Context, i int) (err error) {
			sums[i], err = sum(ctx, pieces[i].Content, func([]byte) error { return nil })
			return err
		})
	}
	if err != nil {
		return err
	}
	x.pieces = indexPieces(pieces, sums)
	if err := out.Append(pieces[0].Content); err != nil {
		return err
	}
	le := binary.LittleEndian
	var marks []byte
	for _, c := range cuts {
		marks = le.AppendUint64(marks, uint64(c[0].Offset))
	}
	marks = le.AppendUint32(marks, uint32(len(cuts)))
	marks = le.AppendUint32(marks, uint32(o.Level))
	indexed := uint64(0)
	if o.Frames != FramesOne {
		indexed = 1
	}
	marks = le.AppendUint64(marks, indexed)
	marks = le.AppendUint64(marks, xxhash.Sum64(marks))
	_, err = out.Write(x.append(marks))
	return err
}

// sumAndHash sets sums to the XXH64 of the pieces and returns the hash of all raw bytes.
// The hash runs on one core; reading and the sums run on another.
func sumAndHash(ctx context.Context, pieces []content.Part, sums []uint64, done func(n int64)) (uint64, error) {
	h := NewHasher()
	err := pumped(func(b []byte) error {
		h.Write(b)
		return context.Cause(ctx)
	}, func(emit func([]byte) error) error {
		counted := func(b []byte) error {
			if done != nil {
				done(int64(len(b)))
			}
			return emit(b)
		}
		end := int64(0)
		for i, p := range pieces {
			err := content.WriteZeros(writerFunc(emit), p.Offset-end)
			if err == nil {
				sums[i], err = sum(ctx, p.Content, counted)
			}
			if err != nil {
				return err
			}
			end = p.End()
		}
		return nil
	})
	return h.Sum(), err
}

// ParsePlan checks a plan.
func ParsePlan(c content.Content) (_ *Plan, err error) {
	defer guard.Into(&err)()
	le := binary.LittleEndian
	data := c.Mapped(guard.Inside)
	x := readIndex(data)
	if x == nil {
		return nil, fault(0, Other, "not a plan of a compressed bundle: it does not end with an index")
	}
	broken := fault(0, Other, "not a plan of a compressed bundle: its header and frames differ from its index")
	end := int64(len(data)) - x.size
	if len(x.pieces) == 0 || x.pieces[0].off != 0 || x.pieces[0].size > end-planTail {
		return nil, broken
	}
	head := x.pieces[0].size
	marks := data[head:end]
	sum, tail := len(marks)-8, len(marks)-planTail
	if tail%8 != 0 || xxhash.Sum64(marks[:sum]) != le.Uint64(marks[sum:]) || x.pieces[0].check(xxhash.Sum64(data[:head])) != nil {
		return nil, broken
	}
	p := &Plan{
		head:    c.Slice(0, head),
		indexed: le.Uint64(marks[tail+8:]) == 1,
		index:   x,
	}
	for i := 0; i < tail; i += 8 {
		p.starts = append(p.starts, int64(le.Uint64(marks[i:])))
	}
	level := le.Uint32(marks[tail+4:])
	if len(p.starts) == 0 || len(p.starts) != int(le.Uint32(marks[tail:])) || p.starts[0] != 0 || !slices.IsSorted(p.starts) || level > uint32(Small) {
		return nil, broken
	}
	p.level = Level(level)
	return p, nil
}
