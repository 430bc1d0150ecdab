package ccob

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// indexed is a bundle with an index, and where the index begins.
func indexed(t testing.TB) (pieces []content.Part, raw, data []byte, at int) {
	pieces, raw = sample(4096, 20_000, processors...)
	data = encode(t, pieces, EncodeOptions{Frames: FramesEntry})
	x := readIndex(data)
	if x == nil {
		t.Fatal("no index")
	}
	return pieces, raw, data, len(data) - int(x.size)
}

// withEnd returns the bundle in data, up to at, with another end.
func withEnd(data []byte, at int, end []byte) []byte {
	b := slices.Concat(data[:at], end)
	binary.LittleEndian.PutUint64(b[8:], uint64(len(b)))
	return b
}

// appendOld appends an index of version 1.
func (x *index) appendOld(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, indexFrame)
	dst = le.AppendUint32(dst, uint32(len(x.pieces)*oldIndexRecord+oldIndexTail))
	start := len(dst)
	for _, p := range x.pieces {
		dst = le.AppendUint64(dst, uint64(p.off))
		dst = le.AppendUint64(dst, uint64(p.size))
		dst = le.AppendUint64(dst, p.sum)
	}
	dst = le.AppendUint64(dst, uint64(x.raw))
	dst = le.AppendUint64(dst, x.hash)
	dst = le.AppendUint32(dst, uint32(len(x.pieces)))
	dst = le.AppendUint32(dst, 1)
	dst = le.AppendUint64(dst, xxhash.Sum64(dst[start:]))
	return append(dst, oldIndexEnd...)
}

func TestIndexChecksEntries(t *testing.T) {
	pieces, _, data, at := indexed(t)
	// Change the checksum of the last piece: only reading that piece fails.
	x := readIndex(data)
	x.pieces[len(x.pieces)-1].sum++
	for name, end := range map[string][]byte{"new": x.append(nil), "old": x.appendOld(nil)} {
		t.Run(name, func(t *testing.T) {
			b := withEnd(data, at, end)
			r, err := Open(b, Options{Budget: cores})
			if err != nil {
				t.Fatal(err)
			}
			last := pieces[len(pieces)-1]
			for _, p := range pieces {
				var out bytes.Buffer
				err := r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), &out}})
				if p.Offset == last.Offset {
					if err == nil || !strings.Contains(err.Error(), "the data is damaged") {
						t.Errorf("a wrong sum is taken: %v", err)
					}
				} else if err != nil || !bytes.Equal(out.Bytes(), p.Content.Mapped(guard.Inside)) {
					t.Errorf("entry at 0x%x: %v", p.Offset, err)
				}
			}
			if _, err := r.Decode(context.Background()); err == nil || !strings.Contains(err.Error(), "the data is damaged") {
				t.Errorf("a wrong sum is taken: %v", err)
			}
			if err := r.Extract(context.Background(), []Range{{0, r.RawSize(), io.Discard}}); err == nil || !strings.Contains(err.Error(), "the data is damaged") {
				t.Errorf("a wrong sum is taken: %v", err)
			}
			if err := decodeErr(b, Options{Lenient: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

// The header of the plain bundle has the offsets of entries. It is checked before use, and
// entries that are not in the index are rejected.
func TestIndexChecksHeader(t *testing.T) {
	pieces, _, data, at := indexed(t)
	x := readIndex(data)
	x.pieces[0].sum++
	r, err := Open(withEnd(data, at, x.append(nil)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prefix(context.Background(), 100); err == nil || !strings.Contains(err.Error(), "the data is damaged") {
		t.Errorf("a wrong sum is taken: %v", err)
	}
	x = readIndex(data)
	x.pieces = x.pieces[1:]
	if r, err = Open(withEnd(data, at, x.append(nil)), Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prefix(context.Background(), 100); err == nil || !strings.Contains(err.Error(), "the index has no header") {
		t.Errorf("a header without sum is taken: %v", err)
	}
	if r, err = Open(data, Options{}); err != nil {
		t.Fatal(err)
	}
	p := pieces[3]
	for _, g := range []Range{{Offset: p.Offset, Size: p.Content.Len() - 1}, {Offset: p.Offset + 1, Size: p.Content.Len()}, {Offset: 1, Size: 1}, {Offset: 0, Size: r.RawSize() - 1}} {
		if err := r.Extract(context.Background(), []Range{g}); err == nil || !strings.Contains(err.Error(), "are not an entry in the index") {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestIndexAndHeaderHash(t *testing.T) {
	_, _, data, _ := indexed(t)
	b := bytes.Clone(data)
	b[24]++
	if _, err := Open(b, Options{}); err == nil || !strings.Contains(err.Error(), "one of them is damaged") {
		t.Error(err)
	}
}

// TestDamage flips bits of bundles in every form that is written: the entries and the header are
// unchanged, or reading them fails. It flips bits of all bytes in the header and the end, and of one
// byte in a hundred between them; -short skips most of those in bundles of a megabyte.
func TestDamage(t *testing.T) {
	ctx := context.Background()
	forms := map[string]struct {
		pieces []content.Part
		raw    []byte
		data   []byte
	}{}
	add := func(name string, pieces []content.Part, raw, data []byte) {
		forms[name] = struct {
			pieces []content.Part
			raw    []byte
			data   []byte
		}{pieces, raw, data}
	}
	pieces, raw := sample(4096, 3000, "gfx900", "gfx1030")
	add("small", pieces, raw, encode(t, pieces, EncodeOptions{}))
	add("small, version 2", pieces, raw, encode(t, pieces, EncodeOptions{Version: 2}))
	add("small, a frame each", pieces, raw, encode(t, pieces, EncodeOptions{Frames: FramesEntry}))
	pieces, raw = sample(4096, 360_000, "gfx900", "gfx1030", "gfx1100")
	add("index", pieces, raw, encode(t, pieces, EncodeOptions{}))
	add("one frame", pieces, raw, encode(t, pieces, EncodeOptions{Frames: FramesOne}))
	add("a frame each", pieces, raw, encode(t, pieces, EncodeOptions{Frames: FramesEntry}))
	add("assembled", pieces, raw, assemble(t, plan(t, pieces, EncodeOptions{Frames: FramesEntry}), parts(t, pieces, never, true, EncodeOptions{}), EncodeOptions{}))
	data := encode(t, pieces, EncodeOptions{})
	add("old index", pieces, raw, withEnd(data, len(data)-int(readIndex(data).size), readIndex(data).appendOld(nil)))
	pieces, raw = plain(4096, []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"}, [][]byte{nil, make([]byte, 1<<20), make([]byte, 1<<19)})
	add("zeros", pieces, raw, encode(t, pieces, EncodeOptions{}))
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	pieces, raw = plain(4096, []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"}, [][]byte{nil, noise[:1<<19], noise[1<<19:]})
	add("noise", pieces, raw, encode(t, pieces, EncodeOptions{}))

	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			header := f.pieces[0].Content.Mapped(guard.Inside)
			data := f.data
			step, large := max(1, len(data)/100), len(f.raw) > 1<<20
			for i, n := 0, 0; i < len(data); i++ {
				inside := i >= 80 && i < len(data)-100
				if inside && i%step != 0 {
					continue
				}
				if n++; large && testing.Short() && n%13 != 0 {
					continue
				}
				for bit := range 8 {
					if (inside || large) && bit != i/step%8 && bit != 2 {
						continue
					}
					data[i] ^= 1 << bit
					if r, err := Open(data, Options{Budget: cores}); err == nil {
						if b, err := r.Prefix(ctx, int64(len(header))); err == nil && !bytes.Equal(b, header) {
							t.Fatalf("bit %d of byte %d of %d: another header", bit, i, len(data))
						}
						for k, p := range f.pieces {
							if k != i%len(f.pieces) {
								continue
							}
							var out bytes.Buffer
							if err := r.Extract(ctx, []Range{{p.Offset, p.Content.Len(), &out}}); err == nil && !bytes.Equal(out.Bytes(), p.Content.Mapped(guard.Inside)) {
								t.Fatalf("bit %d of byte %d of %d: other bytes of an entry", bit, i, len(data))
							}
						}
						if i%5 == 0 {
							if all, err := r.Decode(ctx); err == nil && !bytes.Equal(all.Bytes(), f.raw) {
								t.Fatalf("bit %d of byte %d: other bytes", bit, i)
							}
						}
					}
					data[i] ^= 1 << bit
				}
			}
		})
	}
}

// What is written has the magic at its beginning and nowhere else.
func TestMagicOnce(t *testing.T) {
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for i := 100; i < len(noise)-4; i += 7919 {
		copy(noise[i:], Magic)
	}
	ids := []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx1030"}
	sizes := []int{4, 100, 10_000, 1_200_000}
	if testing.Short() {
		sizes[3] = 200_000
	}
	for _, size := range sizes {
		pieces, raw := plain(4096, ids, [][]byte{nil, noise[:size], noise[96:][:size]})
		for _, how := range []Frames{FramesAuto, FramesEntry, FramesOne} {
			for _, level := range []Level{Fast, Small} {
				o := EncodeOptions{Frames: how, Level: level}
				data := encode(t, pieces, o)
				if n := bytes.LastIndex(data, []byte(Magic)); n != 0 {
					t.Errorf("%d bytes, %d: the magic occurs at byte %d", size, how, n)
				}
				readAll(t, data, raw, Options{Budget: cores})
				if how == FramesOne {
					continue
				}
				again := assemble(t, plan(t, pieces, o), parts(t, pieces, never, true, o), EncodeOptions{})
				if n := bytes.LastIndex(again, []byte(Magic)); n != 0 {
					t.Errorf("%d bytes, %d: the magic occurs at byte %d when assembled", size, how, n)
				}
			}
		}
	}
	// The bytes of the index are in no entry, whatever it contains.
	x := &index{hash: 0x424F4343424F4343}
	for range 10_000 {
		x.pieces = append(x.pieces, indexPiece{x.raw + 0x424F4343, 0x424F4343, 0x424F4343424F4343})
		x.raw += 2 * 0x424F4343
	}
	b := x.append(nil)
	if bytes.ContainsAny(b[frameHead:], Magic) {
		t.Error("an index has the magic")
	}
	if got := readIndex(b); got == nil || got.raw != x.raw || got.hash != x.hash || !slices.Equal(got.pieces, x.pieces) {
		t.Error("the index is not read back")
	}
}

func TestWorthIndex(t *testing.T) {
	for _, tt := range []struct {
		raw, data int64
		pieces    int
		want      bool
	}{
		{1<<20 - 1, 1 << 19, 5, false}, // hashed at once
		{1 << 20, 1 << 19, 5, true},
		{1 << 20, 1 << 10, 5, false},   // nothing to be larger than
		{2 << 20, 2 << 20, 100, false}, // noise, for which LLVM has no room either
		{200 << 20, 200 << 20, 10, true},
		{64 << 20, 1 << 10, 5, true}, // or a listing would decode it
	} {
		if got := worthIndex(tt.raw, tt.data, tt.pieces); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// A single large frame is listed without decoding; reading an entry decodes all of it.
func TestLargeSingleFrame(t *testing.T) {
	pieces, _ := plain(4096, []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"}, [][]byte{nil, make([]byte, listMost), []byte("code")})
	data := encode(t, pieces, EncodeOptions{Frames: FramesOne, Budget: cores})
	data[len(data)-1]++ // of the checksum
	r, err := Open(data, Options{Budget: cores})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.Prefix(context.Background(), 100); err != nil || !bytes.HasPrefix(pieces[0].Content.Mapped(guard.Inside), b) {
		t.Errorf("the header: %v", err)
	}
	p := pieces[3]
	if err := r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), io.Discard}}); err == nil {
		t.Error("an entry of a damaged frame is taken")
	}
}

// A file size that forms the magic is avoided.
func TestMagicInHeader(t *testing.T) {
	s := Stats{Version: 3, Method: Zstd, DataSize: 0x424F4343 - 32, RawSize: 1 << 40}
	h, end, err := s.finish(&index{})
	if err != nil || bytes.Contains(h[1:], []byte(Magic)) || string(end) != emptyFrame {
		t.Errorf("% x, % x, %v", h, end, err)
	}
	if s.FileSize != 0x424F4343+8 || s.DataSize != s.FileSize-32 {
		t.Errorf("%+v", s)
	}
}

// TestForgedIndex tests a consistent index with wrong offsets.
func TestForgedIndex(t *testing.T) {
	pieces, raw, data, at := indexed(t)
	for name, forge := range map[string]func(x *index){
		"raw size":     func(x *index) { x.raw = 1 << 50 },
		"raw size - 1": func(x *index) { x.raw-- },
		"none":         func(x *index) { x.pieces = nil },
		"offset":       func(x *index) { x.pieces[1].off = 1 << 62 },
		"offset + 1":   func(x *index) { x.pieces[1].off++ },
		"size":         func(x *index) { x.pieces[1].size = 1<<63 - 1 },
		"size 0":       func(x *index) { x.pieces[0].size = 0 },
		"negative":     func(x *index) { x.pieces[2].size = -1 },
		"overlap":      func(x *index) { x.pieces[1].off = 0 },
	} {
		for _, version := range []string{"new", "old"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				x := readIndex(data)
				forge(x)
				end := x.append(nil)
				if version == "old" {
					end = x.appendOld(nil)
				}
				b := withEnd(data, at, end)
				r, err := Open(b, Options{})
				if err != nil {
					t.Fatal(err) // it is ignored, or fails when it is used
				}
				p := pieces[4]
				var out bytes.Buffer
				err = r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), &out}})
				if err == nil && !bytes.Equal(out.Bytes(), p.Content.Mapped(guard.Inside)) {
					t.Error("other bytes")
				}
				if all, err := r.Decode(context.Background()); err == nil && !bytes.Equal(all.Bytes(), raw) {
					t.Error("other bytes")
				}
			})
		}
	}
}

func TestAllZero(t *testing.T) {
	b := make([]byte, 100)
	for i := range b {
		if b[i] = 1; allZero(b) || !allZero(b[:i]) || !allZero(b[i+1:]) {
			t.Errorf("wrong with byte %d set", i)
		}
		b[i] = 0
	}
}

func TestFamily(t *testing.T) {
	for want, ids := range map[string][]string{
		"gfx9":  {"hip-amdgcn-amd-amdhsa--gfx803", "x-gfx600", "x-gfx90a:xnack+", "x-gfx9-generic", "x-gfx9-4-generic", "x-gfx942", "x-gfx90c"},
		"gfx10": {"x-gfx1030", "x-gfx10-1-generic", "x-gfx1010:xnack-"},
		"gfx11": {"x-gfx1100", "x-gfx11-generic", "x-gfx1201", "x-gfx12-generic", "x-gfx11-7-generic"},
		// Unknown processors are families of their own.
		"gfx1499": {"x-gfx1499", "x-gfx1499:xnack+"},
		"":        {"host-x86_64-unknown-linux-gnu-", "openmp-nvptx64-nvidia-cuda--sm_70", ""},
	} {
		for _, id := range ids {
			if got := Family(id); got != want {
				t.Errorf("Family(%q) = %q, want %q", id, got, want)
			}
		}
	}
	for _, id := range []string{"gfx", "gfx9", "gfx-", "gfx:", "gfx90"} {
		Family(id) // must not panic
	}
}

func TestCut(t *testing.T) {
	at := func(off, n int64, id string) content.Part {
		return content.Part{Offset: off, Content: content.Memory(make([]byte, n)), ID: id}
	}
	m := int64(autoLeast)
	small := []content.Part{at(0, 10, ""), at(10, 0, "host"), at(10, 5, "x-gfx900"), at(15, 5, "x-gfx1030")}
	large := []content.Part{at(0, 10, ""), at(10, 0, "host"), at(10, m, "x-gfx1010"), at(m+10, m, "x-gfx1030"), at(2*m+10, m, "x-gfx803"), at(3*m+10, m, "x-gfx90a"), at(4*m+10, 0, "x-gfx942")}
	// A table of numbers, equal in all entries, next to code.
	table := code(1, 1, 4<<20)
	same := []content.Part{at(0, 10, "")}
	for i, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100"} {
		same = append(same, content.Part{Offset: same[i].End(), Content: content.Memory(slices.Concat(code(uint64(i), 2, 2<<20), table)), ID: id})
	}
	// A family in two places, not farther from each other than LLVM's window.
	mixed := []content.Part{at(0, 10, ""), at(10, 0, "host"), at(10, m, "x-gfx1030"), at(m+10, m, "x-gfx900"), at(2*m+10, m, "x-gfx1010"), at(3*m+10, m, "x-gfx906"), at(4*m+10, m, "x-gfx1100")}
	h := halfLeast / 2
	huge := []content.Part{at(0, 10, ""), at(10, 0, "host"), at(10, h, "x-gfx900"), at(h+10, h, "x-gfx906"), at(2*h+10, h, "x-gfx908"), at(3*h+10, h-1, "x-gfx90a"), at(4*h+9, 1, "x-gfx942")}
	// Compressed debug sections that are equal in all entries: one frame, up to the size of LLVM's
	// window.
	noise := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	dense := []content.Part{at(0, 10, "")}
	for _, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100", "x-gfx1101", "x-gfx1102", "x-gfx1150", "x-gfx1151", "x-gfx1200", "x-gfx90a"} {
		dense = append(dense, content.Part{Offset: dense[len(dense)-1].End(), Content: content.Memory(noise), ID: id})
	}
	// Each with its own: little is lost, if it is large.
	own := []content.Part{at(0, 10, "")}
	for i, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100"} {
		noise := make([]byte, 14<<20)
		rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
		own = append(own, content.Part{Offset: own[i].End(), Content: content.Memory(noise), ID: id})
	}
	for _, tt := range []struct {
		pieces []content.Part
		how    Frames
		want   []int
	}{
		{own, FramesAuto, []int{1, 1, 1, 1}},
		{own[:3], FramesAuto, []int{3}},
		{dense[:4], FramesAuto, []int{4}},
		{dense[:9], FramesAuto, []int{9}},
		{dense, FramesAuto, []int{1, 8, 1}},
		{large[:4], FramesAuto, []int{4}},
		{nil, FramesAuto, []int{0}},
		{nil, FramesEntry, []int{0}},
		{small, FramesAuto, []int{4}},
		{small, FramesOne, []int{4}},
		{small, FramesEntry, []int{2, 1, 1}},
		{large, FramesAuto, []int{2, 2, 3}},
		{large, FramesEntry, []int{2, 1, 1, 1, 2}},
		{large, FramesOne, []int{7}},
		{mixed, FramesAuto, []int{2, 4, 1}},
		{mixed, FramesEntry, []int{2, 1, 1, 1, 1, 1}},
		{huge, FramesAuto, []int{2, 2, 3}},
		{huge[:6], FramesAuto, []int{6}},
		{huge, FramesOne, []int{7}},
		{same, FramesAuto, []int{4}},
	} {
		got, err := cut(context.Background(), cores, tt.pieces, tt.how, Fast)
		ok := len(got) == len(tt.want) && err == nil
		for i := range got {
			ok = ok && len(got[i]) == tt.want[i]
		}
		if !ok {
			t.Errorf("%d pieces, %d: got %d frames, want %v", len(tt.pieces), tt.how, len(got), tt.want)
		}
	}
	if got, err := cut(context.Background(), cores, large, FramesAuto, Small); len(got) != 1 || err != nil {
		t.Errorf("level Small: %d frames, %v", len(got), err)
	}
}
