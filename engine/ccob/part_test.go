package ccob

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/files"
)

// parts encodes every piece but the first as a part.
func parts(t testing.TB, pieces []Piece) []Placed {
	t.Helper()
	var list []Placed
	for _, p := range pieces[1:] {
		var b files.Buffer
		if err := EncodePart(context.Background(), &b, []Piece{{Content: p.Content, ID: p.ID}}, EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
		part, err := ParsePart(files.Memory(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Placed{p.Offset, part})
	}
	return list
}

func TestAssemble(t *testing.T) {
	ctx := context.Background()
	for _, align := range []int64{1, 4096, 300_000} {
		for _, size := range []int{0, 20_000} {
			pieces, raw := sample(align, size, processors...)
			h := NewHasher()
			for _, p := range pieces {
				// Every entry is hashed by a program of its own.
				state, err := h.MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				h = &Hasher{}
				if err := h.UnmarshalBinary(state); err != nil {
					t.Fatal(err)
				}
				if err := h.Add(ctx, p); err != nil {
					t.Fatal(err)
				}
			}
			for _, version := range []int{2, 3} {
				var b files.Buffer
				s, err := Assemble(ctx, &b, pieces[0], parts(t, pieces), h, EncodeOptions{Version: version})
				if err != nil {
					t.Fatal(err)
				}
				if s.FileSize != b.Len() {
					t.Errorf("%d bytes, stats say %d", b.Len(), s.FileSize)
				}
				readAll(t, b.Bytes(), raw, Options{Budget: cores})
				readAll(t, b.Bytes(), raw, Options{Hash: HashFull})
				if r, err := Open(b.Bytes(), Options{}); err != nil || !r.Indexed() {
					t.Error("no index", err)
				}
			}
		}
	}
}

func TestPartOfSeveral(t *testing.T) {
	ctx := context.Background()
	pieces, raw := sample(4096, 20_000, processors...)
	h := NewHasher()
	if err := h.Add(ctx, pieces...); err != nil {
		t.Fatal(err)
	}
	first := pieces[1].Offset
	var inner []Piece
	for _, p := range pieces[1:] {
		p.Offset -= first
		inner = append(inner, p)
	}
	var b, out files.Buffer
	if err := EncodePart(ctx, &b, inner, EncodeOptions{Budget: cores}); err != nil {
		t.Fatal(err)
	}
	part, err := ParsePart(files.Memory(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(ctx, &out, pieces[0], []Placed{{first, part}}, h, EncodeOptions{}); err != nil {
		t.Fatal(err)
	}
	readAll(t, out.Bytes(), raw, Options{})
}

func TestAssembleRefuses(t *testing.T) {
	ctx := context.Background()
	pieces, _ := sample(4096, 20_000, processors...)
	h := NewHasher()
	if err := h.Add(ctx, pieces...); err != nil {
		t.Fatal(err)
	}
	list := parts(t, pieces)
	short := NewHasher()
	if err := short.Add(ctx, pieces[0]); err != nil {
		t.Fatal(err)
	}
	swapped := append([]Placed{}, list...)
	swapped[2], swapped[3] = swapped[3], swapped[2]
	for name, f := range map[string]func() error{
		"not all hashed": func() error {
			_, err := Assemble(ctx, &files.Buffer{}, pieces[0], list, short, EncodeOptions{})
			return err
		},
		"nothing hashed": func() error {
			_, err := Assemble(ctx, &files.Buffer{}, pieces[0], nil, NewHasher(), EncodeOptions{})
			return err
		},
		"order": func() error {
			_, err := Assemble(ctx, &files.Buffer{}, pieces[0], swapped, h, EncodeOptions{})
			return err
		},
		"hashed twice": func() error { return h.Add(ctx, pieces[0]) },
		"version": func() error {
			_, err := Assemble(ctx, &files.Buffer{}, pieces[0], list, h, EncodeOptions{Version: 1})
			return err
		},
		"no part": func() error { _, err := ParsePart(files.Memory([]byte("x"))); return err },
		"foreign part": func() error {
			x := index{raw: 5}
			_, err := ParsePart(files.Memory(x.append(zeroFrame(nil, 4))))
			return err
		},
		"garbage part": func() error {
			_, err := ParsePart(files.Memory((&index{raw: 5}).append([]byte("garbage garbage garbage"))))
			return err
		},
		"state":          func() error { return new(Hasher).UnmarshalBinary([]byte("short")) },
		"state, garbage": func() error { return new(Hasher).UnmarshalBinary(make([]byte, 100)) },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestHasherZeros(t *testing.T) {
	pieces := []Piece{{Content: files.Memory([]byte("a"))}, {Offset: 20_000_000, Content: files.Memory([]byte("b"))}}
	raw := make([]byte, 20_000_001)
	raw[0], raw[len(raw)-1] = 'a', 'b'
	a, b := NewHasher(), NewHasher()
	if err := a.Add(context.Background(), pieces...); err != nil {
		t.Fatal(err)
	}
	b.Write(raw)
	if a.Sum() != b.Sum() || a.Size() != b.Size() {
		t.Error("zeros are not hashed as bytes")
	}
}

func TestEncodeRefuses(t *testing.T) {
	ctx := context.Background()
	one := files.Memory([]byte("abc"))
	for name, pieces := range map[string][]Piece{
		"overlap":  {{Content: one}, {Offset: 2, Content: one}},
		"negative": {{Offset: -1, Content: one}},
		"overflow": {{Offset: math.MaxInt64 - 1, Content: one}},
	} {
		if _, err := Encode(ctx, &files.Buffer{}, pieces, EncodeOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Encode(ctx, &files.Buffer{}, nil, EncodeOptions{Version: 1}); err == nil || !strings.Contains(err.Error(), "version 1") {
		t.Error(err)
	}
}

func TestVersion2Limits(t *testing.T) {
	if _, err := newStats(2, 1<<32); err == nil || err.Error() != "Uncompressed size exceeds version 2 limit" {
		t.Error(err)
	}
	if _, err := newStats(2, 1<<32-1); err != nil {
		t.Error(err)
	}
	for version, want := range map[int]string{2: "Total file size exceeds version 2 limit", 3: ""} {
		s := Stats{Version: version, DataSize: 1 << 32}
		_, err := s.header()
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && (want != "" || s.FileSize != 1<<32+32) {
			t.Error(version, err, s)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Append(files.Content) error  { return nil }
func (discard) Zeros(int64) error           { return nil }

func TestEmpty(t *testing.T) {
	var b files.Buffer
	if _, err := Encode(context.Background(), &b, nil, EncodeOptions{}); err != nil {
		t.Fatal(err)
	}
	readAll(t, b.Bytes(), nil, Options{})
	readAll(t, b.Bytes(), nil, Options{Hash: HashFull})
}

func TestZeroFrame(t *testing.T) {
	for _, n := range []int{0, 1, 4095, maxBlock, maxBlock + 1, 3*maxBlock + 5} {
		raw := make([]byte, n)
		readAll(t, container(3, Zstd, zeroFrame(nil, int64(n)), raw), raw, Options{})
	}
}

func TestWindowDescriptor(t *testing.T) {
	for n := int64(1); n <= maxWindow; n = n*9/8 + 1 {
		d := windowDescriptor(n)
		base := int64(1) << (10 + d>>3)
		if w := base + base/8*int64(d&7); w < n || w > max(n+n/8, 1<<10) {
			t.Errorf("window of %d for %d", w, n)
		}
	}
	if !bytes.Equal([]byte{windowDescriptor(maxWindow)}, []byte{(31 - 10) << 3}) {
		t.Error("2 GiB")
	}
}
