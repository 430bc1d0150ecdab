package ccob

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/files"
)

// indexed is a bundle with an index, and where the index begins.
func indexed(t testing.TB) (pieces []Piece, raw, data []byte, at int) {
	pieces, raw = sample(4096, 20_000, processors...)
	data = encode(t, pieces, EncodeOptions{Frames: FramesEntry})
	x := readIndex(data)
	if x == nil {
		t.Fatal("no index")
	}
	return pieces, raw, data, len(data) - int(x.frameSize())
}

// seal makes a forged index believe in itself.
func seal(data []byte, at int) []byte {
	n := len(data)
	binary.LittleEndian.PutUint64(data[n-16:], xxhash.Sum64(data[at+8:n-16]))
	return data
}

func TestIndexChecksEntries(t *testing.T) {
	pieces, _, data, at := indexed(t)
	// Forge the sum of the last piece: only what touches it fails.
	b := bytes.Clone(data)
	n := len(pieces) - 2 // the host entry has no record
	b[at+8+n*indexRecord+16]++
	seal(b, at)
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
		} else if err != nil || !bytes.Equal(out.Bytes(), p.Content.Bytes()) {
			t.Errorf("entry at 0x%x: %v", p.Offset, err)
		}
	}
	if _, err := r.Decode(context.Background()); err == nil || !strings.Contains(err.Error(), "the data is damaged") {
		t.Errorf("a wrong sum is taken: %v", err)
	}
	if err := decodeErr(b, Options{Lenient: true}); err != nil {
		t.Error(err)
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

// TestDamage flips every bit of the index and many of the data: the answer is the
// right bytes or an error.
func TestDamage(t *testing.T) {
	pieces, raw, data, at := indexed(t)
	ctx := context.Background()
	p := pieces[3]
	for i := headerSize(3); i < int64(len(data)); i++ {
		if i < int64(at) && i%97 != 0 {
			continue
		}
		for bit := range 8 {
			if i < int64(at) && bit != int(i)%8 {
				continue
			}
			data[i] ^= 1 << bit
			if r, err := Open(data, Options{}); err == nil {
				if all, err := r.Decode(ctx); err == nil && !bytes.Equal(all.Bytes(), raw) {
					t.Fatalf("bit %d of byte %d: other bytes", bit, i)
				}
				var out bytes.Buffer
				if err := r.Extract(ctx, []Range{{p.Offset, p.Content.Len(), &out}}); err == nil && r.Indexed() && !bytes.Equal(out.Bytes(), p.Content.Bytes()) {
					t.Fatalf("bit %d of byte %d: other bytes of an entry", bit, i)
				}
			}
			data[i] ^= 1 << bit
		}
	}
}

// TestForgedIndex: an index that holds together but tells lies about places.
func TestForgedIndex(t *testing.T) {
	pieces, raw, data, at := indexed(t)
	le := binary.LittleEndian
	n := len(data)
	for name, forge := range map[string]func(b []byte){
		"raw size":      func(b []byte) { le.PutUint64(b[n-40:], 1<<50) },
		"raw size - 1":  func(b []byte) { le.PutUint64(b[n-40:], uint64(len(raw)-1)) },
		"count":         func(b []byte) { le.PutUint32(b[n-24:], 1<<31) },
		"count 0":       func(b []byte) { le.PutUint32(b[n-24:], 0) },
		"version":       func(b []byte) { le.PutUint32(b[n-20:], 2) },
		"offset":        func(b []byte) { le.PutUint64(b[at+8+indexRecord:], 1<<63) },
		"offset + 1":    func(b []byte) { b[at+8+indexRecord]++ },
		"size":          func(b []byte) { le.PutUint64(b[at+16+indexRecord:], 1<<63-1) },
		"size 0":        func(b []byte) { le.PutUint64(b[at+16:], 0) },
		"overlap":       func(b []byte) { le.PutUint64(b[at+8+indexRecord:], 0) },
		"frame magic":   func(b []byte) { b[at] ^= 0x0f },
		"frame size":    func(b []byte) { b[at+4]-- },
		"every ff":      func(b []byte) { copy(b[at+8:n-16], bytes.Repeat([]byte{0xff}, n-16-at-8)) },
		"not sealed":    nil,
		"magic":         func(b []byte) { b[n-1] = 1 },
		"one more byte": func(b []byte) { le.PutUint32(b[at+4:], le.Uint32(b[at+4:])+1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(data)
			if forge == nil {
				b[at+8]++
			} else {
				forge(b)
				seal(b, at)
			}
			r, err := Open(b, Options{})
			if err != nil {
				t.Fatal(err) // it is ignored, or fails when it is used
			}
			p := pieces[4]
			var out bytes.Buffer
			err = r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), &out}})
			if err == nil && !bytes.Equal(out.Bytes(), p.Content.Bytes()) {
				t.Error("other bytes")
			}
			if all, err := r.Decode(context.Background()); err == nil && !bytes.Equal(all.Bytes(), raw) {
				t.Error("other bytes")
			}
		})
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
		"":      {"host-x86_64-unknown-linux-gnu-", "openmp-nvptx64-nvidia-cuda--sm_70", ""},
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
	at := func(off, n int64, id string) Piece {
		return Piece{Offset: off, Content: files.Memory(make([]byte, n)), ID: id}
	}
	m := int64(autoLeast)
	small := []Piece{at(0, 10, ""), at(10, 0, "host"), at(10, 5, "x-gfx900"), at(15, 5, "x-gfx1030")}
	large := []Piece{at(0, 10, ""), at(10, 0, "host"), at(10, m, "x-gfx1010"), at(m+10, m, "x-gfx1030"), at(2*m+10, m, "x-gfx803"), at(3*m+10, m, "x-gfx90a"), at(4*m+10, 0, "x-gfx942")}
	// A table of numbers, the same for all, beside code.
	table := code(1, 1, 4<<20)
	same := []Piece{at(0, 10, "")}
	for i, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100"} {
		same = append(same, Piece{Offset: same[i].end(), Content: files.Memory(slices.Concat(code(uint64(i), 2, 2<<20), table)), ID: id})
	}
	// A family in two places, not farther from each other than LLVM's window.
	mixed := []Piece{at(0, 10, ""), at(10, 0, "host"), at(10, m, "x-gfx1030"), at(m+10, m, "x-gfx900"), at(2*m+10, m, "x-gfx1010"), at(3*m+10, m, "x-gfx906"), at(4*m+10, m, "x-gfx1100")}
	h := halfLeast / 2
	huge := []Piece{at(0, 10, ""), at(10, 0, "host"), at(10, h, "x-gfx900"), at(h+10, h, "x-gfx906"), at(2*h+10, h, "x-gfx908"), at(3*h+10, h-1, "x-gfx90a"), at(4*h+9, 1, "x-gfx942")}
	// Compressed debug sections, the same for all: one frame, until it has the size of LLVM's window.
	noise := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	dense := []Piece{at(0, 10, "")}
	for _, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100", "x-gfx1101", "x-gfx1102", "x-gfx1150", "x-gfx1151", "x-gfx1200", "x-gfx90a"} {
		dense = append(dense, Piece{Offset: dense[len(dense)-1].end(), Content: files.Memory(noise), ID: id})
	}
	// Each with its own: little is lost, if it is large.
	own := []Piece{at(0, 10, "")}
	for i, id := range []string{"x-gfx803", "x-gfx1030", "x-gfx1100"} {
		noise := make([]byte, 14<<20)
		rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
		own = append(own, Piece{Offset: own[i].end(), Content: files.Memory(noise), ID: id})
	}
	for _, tt := range []struct {
		pieces []Piece
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
