package ccob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// small bundles to start from.
func seeds(f *testing.F) [][]byte {
	pieces, raw := sample(16, 300, "gfx900", "gfx1030")
	var list [][]byte
	for _, b := range forms(f, raw) {
		list = append(list, b)
	}
	for _, how := range []Frames{FramesOne, FramesEntry} {
		list = append(list, encode(f, pieces, EncodeOptions{Frames: how}))
	}
	return list
}

// FuzzReader checks that all ways of reading agree, whatever the input.
func FuzzReader(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, lenient bool) {
		ctx := context.Background()
		o := Options{Lenient: lenient, MaxSize: 1 << 20, Hash: HashNone}
		r, err := Open(data, o)
		if err != nil {
			return
		}
		raw, err := r.Decode(ctx)
		prefix, perr := r.Prefix(ctx, 1000)
		if err != nil {
			r.Extract(ctx, []Range{{r.RawSize() / 2, r.RawSize() / 4, io.Discard}})
			return
		}
		defer raw.Release()
		b := raw.Bytes()
		if int64(len(b)) > r.RawSize() || !lenient && int64(len(b)) != r.RawSize() {
			t.Fatalf("%d bytes, the header states %d", len(b), r.RawSize())
		}
		if perr != nil || len(prefix) < min(1000, len(b)) || !bytes.HasPrefix(b, prefix) {
			t.Fatalf("prefix of %d of %d: %v", len(prefix), len(b), perr)
		}
		var one, two bytes.Buffer
		third := int64(len(b)) / 3
		if err := r.Extract(ctx, []Range{{third, int64(len(b)) - third, &two}, {third / 2, third, &one}}); err != nil {
			t.Fatal("Extract: ", err)
		}
		if !bytes.Equal(one.Bytes(), b[third/2:third/2+third]) || !bytes.Equal(two.Bytes(), b[third:]) {
			t.Fatal("Extract gives other bytes than Decode")
		}
		o.Hash = HashAuto
		if r, err = Open(data, o); err != nil {
			return
		}
		if again, err := r.Decode(ctx); err == nil {
			if !bytes.Equal(again.Bytes(), b) {
				t.Fatal("with the index, Decode gives other bytes")
			}
			again.Release()
		}
	})
}

// FuzzIndex reads arbitrary bytes as an index with valid checksums.
func FuzzIndex(f *testing.F) {
	pieces, raw := sample(16, 300, "gfx900", "gfx1030")
	data := encode(f, pieces, EncodeOptions{Frames: FramesEntry})
	x := readIndex(data)
	at := len(data) - int(x.size)
	f.Add(data[at+frameHead : len(data)-indexTail])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		end := append([]byte{0x5b, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, body...)
		end = appendBits(end, xxhash.Sum64(body), sumSize)
		size := len(end) + lengthSize + len(indexEnd)
		binary.LittleEndian.PutUint32(end[4:], uint32(size-frameHead))
		end = append(appendBits(end, uint64(size), lengthSize), indexEnd...)
		b := withEnd(data, at, end)
		_, _ = ParsePart(content.Memory(b[headerSize(3):])) // must not panic
		r, err := Open(b, Options{})
		if err != nil {
			return
		}
		for _, p := range pieces {
			var out bytes.Buffer
			if err := r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), &out}}); err == nil && !bytes.Equal(out.Bytes(), p.Content.Mapped(guard.Inside)) {
				t.Fatal("an index changed the bytes of an entry")
			}
		}
		if all, err := r.Decode(context.Background()); err == nil && !bytes.Equal(all.Bytes(), raw) {
			t.Fatal("an index changed the bytes")
		}
	})
}

// FuzzWalk checks that the extents are in order and inside the data.
func FuzzWalk(f *testing.F) {
	list := seeds(f)
	_, p := plain(1, []string{"host-x86_64-unknown-linux-gnu-"}, [][]byte{[]byte("CCOB")})
	for i, s := range list {
		f.Add(bytes.Join([][]byte{p, s, make([]byte, i), list[0], p}, nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pos := int64(0)
		for e, err := range Walk(data, plainSize) {
			if err != nil {
				return
			}
			if e.Offset < pos || e.End <= e.Offset || e.End > int64(len(data)) {
				t.Fatalf("extent %+v behind %d of %d", e, pos, len(data))
			}
			if e.Header != nil && string(data[e.Offset:e.Offset+4]) != Magic {
				t.Fatal("no magic there")
			}
			pos = e.End
		}
	})
}

// FuzzAssemble checks that any plans and parts result in a readable bundle or an error.
func FuzzAssemble(f *testing.F) {
	pieces, _ := sample(16, 300, "gfx900", "gfx1030")
	for _, how := range []Frames{FramesAuto, FramesEntry} {
		var planned, first, second content.Buffer
		o := EncodeOptions{Frames: how}
		if err := errors.Join(
			EncodePlan(context.Background(), &planned, pieces, o),
			EncodePart(context.Background(), &first, []content.Part{{Content: pieces[2].Content}}, pieces[3].Offset-pieces[2].Offset, o),
			EncodePart(context.Background(), &second, []content.Part{{Content: pieces[3].Content}}, 0, o),
		); err != nil {
			f.Fatal(err)
		}
		f.Add(planned.Bytes(), first.Bytes(), second.Bytes())
	}
	f.Fuzz(func(t *testing.T, planned, first, second []byte) {
		plan, err := ParsePlan(content.Memory(planned))
		if err != nil || plan.index.raw > 1<<20 {
			return
		}
		var parts []*Part
		for _, b := range [][]byte{first, second} {
			p, err := ParsePart(content.Memory(b))
			if err != nil {
				return
			}
			parts = append(parts, p)
		}
		var b content.Buffer
		if s, err := Assemble(context.Background(), &b, plan, parts, EncodeOptions{}); err != nil || len(plan.starts) > 1 {
			return // copied parts are not decoded
		} else if s.RawSize != plan.index.raw {
			t.Fatalf("%d bytes, the plan says %d", s.RawSize, plan.index.raw)
		}
		r, err := Open(b.Bytes(), Options{Hash: HashFull})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.Decode(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		raw.Release()
	})
}
