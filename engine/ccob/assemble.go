package ccob

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// placed is a part with its offset in the raw bytes and its entries.
type placed struct {
	*Part
	at     int64
	pieces []indexPiece
}

func (p *placed) end() int64 { return p.at + p.RawSize }

// Assemble writes the compressed bundle of a plan: the parts, in order, must have
// exactly the entries of the plan. Of the options, Version is the container
// version of the bundle.
func Assemble(ctx context.Context, out content.Sink, plan *Plan, parts []*Part, o EncodeOptions) (_ Stats, err error) {
	defer guard.Into(&err)()
	s, err := newStats(o.Version, plan.index.raw)
	if err != nil {
		return s, err
	}
	list, err := plan.place(parts)
	if err != nil {
		return s, err
	}
	s.Hash = plan.index.hash
	var data []content.Content
	add := func(frame content.Content) {
		data = append(data, frame)
		s.DataSize += frame.Len()
		s.Frames++
	}
	for start, raw := int64(0), plan.index.raw; start < raw; {
		// The frame ends at the next part that begins a frame.
		n, end := 0, raw
		for n < len(list) && (list[n].at == start || !slices.Contains(plan.starts, list[n].at)) {
			n++
		}
		if n < len(list) {
			end = list[n].at
		}
		if n == 1 && list[0].at == start {
			p := list[0]
			data, s.DataSize, s.Frames = append(data, p.data), s.DataSize+p.data.Len(), s.Frames+len(p.frames)
			if p.end() < end {
				add(content.Memory(zeroFrame(nil, end-p.end())))
			}
		} else {
			var alone *single
			if len(plan.starts) == 1 {
				alone = &single{wanted: plan.indexed, pieces: len(plan.index.pieces)}
			}
			frame, hash, err := plan.encodeFrame(ctx, list[:n], start, end, o, alone)
			if err != nil {
				return s, err
			}
			if alone != nil {
				s.Hash, s.Indexed = hash, alone.indexed
			}
			add(frame)
		}
		list, start = list[n:], end
	}
	s.Indexed = s.Indexed || s.Frames > 1
	h, last, err := s.finish(&index{pieces: plan.index.pieces})
	if err != nil {
		return s, err
	}
	for _, d := range slices.Concat([]content.Content{content.Memory(h)}, data, []content.Content{content.Memory(last)}) {
		if err := out.Append(d); err != nil {
			return s, err
		}
	}
	return s, nil
}

// place returns the parts that have entries, with their offsets.
func (plan *Plan) place(parts []*Part) ([]placed, error) {
	var list []placed
	pos, rest := plan.head.Len(), plan.index.pieces[1:]
	for i, p := range parts {
		n := len(p.index.pieces)
		if n == 0 {
			continue // empty entries
		}
		if n > len(rest) {
			return nil, fmt.Errorf("part %d of %d has %d entries, the plan has only %d left", i+1, len(parts), n, len(rest))
		}
		at := rest[0].off - p.index.pieces[0].off
		for k, q := range p.index.pieces {
			q.off += at
			if q != rest[k] {
				return nil, fmt.Errorf("part %d of %d: %d bytes at 0x%x with XXH64 0x%016x, the plan has %d bytes at 0x%x with 0x%016x: the part belongs to another bundle or another position",
					i+1, len(parts), q.size, uint64(q.off), q.sum, rest[k].size, uint64(rest[k].off), rest[k].sum)
			}
		}
		if at < pos || p.RawSize > plan.index.raw-at || n < len(rest) && at+p.RawSize > rest[n].off {
			return nil, fmt.Errorf("part %d of %d: its %d bytes at 0x%x overlap adjacent parts", i+1, len(parts), p.RawSize, uint64(at))
		}
		list = append(list, placed{p, at, rest[:n]})
		pos, rest = at+p.RawSize, rest[n:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("the %d bytes at 0x%x of the plan are in no part", rest[0].size, rest[0].off)
	}
	return list, nil
}

// encodeFrame encodes one frame from the parts and all other bytes between start and
// end. If it is the only frame, alone is not nil, and the hash is the hash of its bytes.
func (plan *Plan) encodeFrame(ctx context.Context, parts []placed, start, end int64, o EncodeOptions, alone *single) (frame content.Content, hash uint64, err error) {
	b := orOneCore(o.Budget)
	err = b.WithBytes(ctx, end-start, func(ctx context.Context) error {
		raw, release, err := newMemory(end - start)
		if err != nil {
			return err
		}
		defer release()
		if start == 0 {
			copy(raw, plan.head.Mapped(guard.Inside))
		}
		err = b.Each(ctx, len(parts), func(ctx context.Context, i int) error {
			p := parts[i]
			dst := raw[p.at-start : p.end()-start]
			if err := p.decode(ctx, dst); err != nil {
				return err
			}
			x := index{raw: p.RawSize, pieces: slices.Clone(p.pieces)}
			for k := range x.pieces {
				x.pieces[k].off -= p.at
			}
			return x.check(dst)
		})
		if err != nil {
			return err
		}
		units := []func(context.Context) error{func(ctx context.Context) error {
			var buf content.Buffer
			w := &frameWriter{WriteCloser: nopCloser{&buf}}
			size, err := longzstd.EncodeTo(ctx, w, raw, longzstd.Options{Level: longzstd.Level(plan.level), Cores: b.Cores()})
			if err == nil && alone != nil {
				if _, err = alone.seal(w, raw, size); alone.flags != 0 {
					buf.Bytes()[frameFlags] = alone.flags
				}
			}
			frame = content.Memory(buf.Bytes())
			return err
		}}
		if alone != nil {
			units = append(units, func(ctx context.Context) (err error) {
				hash, err = hashOf(ctx, raw, o.Done)
				return err
			})
		}
		return b.Each(ctx, len(units), func(ctx context.Context, i int) error { return units[i](ctx) })
	})
	return frame, hash, err
}

// nopCloser is a WriteCloser whose Close has no effect.
type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }
