package bundle

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
)

func TestWrite(t *testing.T) {
	for _, tt := range []struct {
		name  string
		items []idAndContent
		opt   Options
		want  []byte
	}{
		{"nothing", nil, Options{Align: 4096}, raw(0, nil, "")},
		{"no padding", []idAndContent{{"host", "ab"}, {"hipx", "c"}}, Options{Align: 1},
			raw(2, []rawEntry{entry(88, 2, "host"), entry(90, 1, "hipx")}, "abc")},
		{"no power of two", []idAndContent{{"host", "ab"}, {"hipx", "c"}}, Options{Align: 45},
			raw(2, []rawEntry{entry(90, 2, "host"), entry(135, 1, "hipx")}, "\x00\x00ab"+strings.Repeat("\x00", 43)+"c")},
		{"padding before an empty one", []idAndContent{{"host", "ab"}, {"hipx", ""}}, Options{Align: 16},
			raw(2, []rawEntry{entry(96, 2, "host"), entry(112, 0, "hipx")}, "\x00\x00\x00\x00\x00\x00\x00\x00ab"+strings.Repeat("\x00", 14))},
		{"equal ones apart", []idAndContent{{"host", "ab"}, {"hipx", "ab"}}, Options{Align: 1},
			raw(2, []rawEntry{entry(88, 2, "host"), entry(90, 2, "hipx")}, "abab")},
		{"equal ones shared", []idAndContent{{"host", "ab"}, {"hipx", "cd"}, {"hipy", "ab"}, {"hipz", "ef"}}, Options{Align: 1, ShareEqual: true},
			raw(4, []rawEntry{entry(144, 2, "host"), entry(146, 2, "hipx"), entry(144, 2, "hipy"), entry(148, 2, "hipz")}, "abcdef")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var buf content.Buffer
			if err := write(&buf, items(tt.items), tt.opt); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, buf.Bytes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	two := []idAndContent{{"host", "a"}, {"hipx", "b"}}
	for _, tt := range []struct {
		items []idAndContent
		align uint64
		err   string
	}{
		{two, 0, "alignment of a bundle must be at least 1"},
		{two, math.MaxUint64, "entry 1 of 2: host: with an alignment of 0xffffffffffffffff, it would exceed the largest size of a file"},
		{two, 1 << 62, "entry 2 of 2: hipx: with an alignment of 0x4000000000000000, it would exceed the largest size of a file"},
		{append(two, idAndContent{"host", ""}), 1, "entries 1 and 3 of 3 have the same ID: host"},
	} {
		if l, err := NewLayout(items(tt.items), Options{Align: tt.align}); message(err) != tt.err {
			t.Errorf("%+v, error %q, want %q", l, message(err), tt.err)
		}
	}
}

// Written entries can be read back, at the offsets of Layout.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.String(), 0, 6, rapid.ID[string]).Draw(t, "ids")
		var want []idAndContent
		for _, id := range ids {
			want = append(want, idAndContent{id, strings.Repeat(rapid.SampledFrom([]string{"", "a", "bc", "\x00"}).Draw(t, "content"), rapid.IntRange(0, 9).Draw(t, "n"))})
		}
		opt := Options{Align: rapid.Uint64Range(1, 5000).Draw(t, "align"), ShareEqual: rapid.Bool().Draw(t, "share")}
		l, err := NewLayout(items(want), opt)
		if err != nil {
			t.Fatal(err)
		}
		var buf content.Buffer
		if err := l.Write(&buf); err != nil {
			t.Fatal(err)
		}
		b, err := Parse(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if buf.Len() != l.Size || b.End != l.Size {
			t.Fatalf("%d bytes, planned %d, read to %d", buf.Len(), l.Size, b.End)
		}
		if diff := cmp.Diff(want, contents(buf.Bytes(), b.Entries)); diff != "" {
			t.Fatal(diff)
		}
		seen := make(map[string]int64)
		for _, e := range b.Entries {
			if uint64(e.Offset)%opt.Align != 0 {
				t.Fatalf("offset %d at alignment %d", e.Offset, opt.Align)
			}
			c := string(e.Content(buf.Bytes()))
			if at, ok := seen[c]; ok && opt.ShareEqual && c != "" && at != e.Offset {
				t.Fatalf("%q lies at %d and at %d", c, at, e.Offset)
			}
			seen[c] = e.Offset
		}
	})
}

// Huge padding costs nothing in a file.
func TestWriteHugeAlignment(t *testing.T) {
	root := files.NewRoot(t.TempDir())
	outs := root.Outputs()
	defer outs.Abort()
	out, err := outs.Create("out")
	if err != nil {
		t.Fatal(err)
	}
	if err := write(out, items([]idAndContent{{"host", "a"}, {"hipx", "b"}}), Options{Align: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if want := int64(2<<40 + 1); out.Size() != want {
		t.Errorf("size %d, want %d", out.Size(), want)
	}
}

// BenchmarkWrite compares with copying the same bytes.
func BenchmarkWrite(b *testing.B) {
	const n, size = 11, 3 << 20
	dir := b.TempDir()
	root := files.NewRoot(dir)
	var its []Item
	for i := range n {
		name := fmt.Sprint("in", i)
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o666); err != nil {
			b.Fatal(err)
		}
		in, err := root.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		defer in.Close()
		its = append(its, Item{fmt.Sprint("hip-amdgcn-amd-amdhsa--gfx", i), in.All()})
	}
	b.Run("bundle", func(b *testing.B) {
		b.SetBytes(n * size)
		for b.Loop() {
			outs := root.Outputs()
			out, err := outs.Create("out")
			if err == nil {
				err = write(out, its, Options{Align: 4096})
			}
			if err == nil {
				err = outs.Commit()
			}
			if err != nil {
				b.Fatal(err)
			}
			os.Remove(filepath.Join(dir, "out"))
		}
	})
	b.Run("io.Copy", func(b *testing.B) {
		b.SetBytes(n * size)
		for b.Loop() {
			out, err := os.Create(filepath.Join(dir, "out"))
			if err != nil {
				b.Fatal(err)
			}
			for i := range n {
				in, err := os.Open(filepath.Join(dir, fmt.Sprint("in", i)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(out, in); err != nil {
					b.Fatal(err)
				}
				in.Close()
			}
			out.Close()
			os.Remove(out.Name())
		}
	})
}

// write writes a binary bundle of items to sink.
func write(sink content.Sink, items []Item, opt Options) error {
	l, err := NewLayout(items, opt)
	if err != nil {
		return err
	}
	return l.Write(sink)
}

// TestLimits checks that bundles with as many entries and as long IDs as writers accept can be read, in all
// forms.
func TestLimits(t *testing.T) {
	items := func(n, length int) []Item {
		items := make([]Item, n)
		for i := range items {
			id := fmt.Sprintf("hip-%d", i)
			items[i].ID = id + strings.Repeat("x", max(0, length-len(id)))
		}
		return items
	}
	longest := (maxHeader - int(fixedHeader)) / 16
	for _, test := range []struct {
		items []Item
		ok    bool
	}{
		{items(maxEntries, 0), true},
		{items(maxEntries+1, 0), false},
		{items(16, longest-int(fixedEntry)), true},
		{items(16, longest-int(fixedEntry)+1), false},
	} {
		layout, err := NewLayout(test.items, Options{Align: 1})
		var text content.Buffer
		if textErr := WriteText(&text, test.items, "//"); (textErr == nil) != (err == nil) || (err == nil) != test.ok {
			t.Errorf("%d entries of %d bytes: got errors %v and %v, want none: %t", len(test.items), len(test.items[0].ID), err, textErr, test.ok)
		}
		if err != nil {
			continue
		}
		var plain content.Buffer
		if err := layout.Write(&plain); err != nil {
			t.Fatal(err)
		}
		if b, err := Parse(plain.Bytes()); err != nil || len(b.Entries) != len(test.items) {
			t.Errorf("plain: %v", err)
		}
		prefix := func(n int64) ([]byte, error) { return plain.Bytes()[:min(n, int64(len(plain.Bytes())))], nil }
		if b, err := ReadHeader(layout.Size, prefix); err != nil || len(b.Entries) != len(test.items) {
			t.Errorf("compressed: %v", err)
		}
		if entries, err := ParseText(text.Bytes(), "//"); err != nil || len(entries) != len(test.items) {
			t.Errorf("text: %d entries, %v", len(entries), err)
		}
	}
}
