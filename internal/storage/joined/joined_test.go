package joined

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// numbered returns n bytes that differ from those of other seeds.
func numbered(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>12*7 + i + seed)
	}
	return b
}

func TestParts(t *testing.T) {
	dir := t.TempDir()
	root := files.NewRoot(dir)
	file := numbered(1, 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "f"), file, 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := root.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rapid.Check(t, func(t *rapid.T) {
		var parts []content.Part
		var want []byte
		near := rapid.SampledFrom([]int{0, 1, 100, 4095, 4096, 4097, 100_000, 300_000})
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			gap, n, off := near.Draw(t, "gap"), near.Draw(t, "size"), near.Draw(t, "offset in file")
			if rapid.Bool().Draw(t, "aligned") {
				gap += (4096 - (len(want)+gap)%4096 + off) % 4096
			}
			want = append(want, make([]byte, gap)...)
			c := in.Content(int64(off), int64(n))
			if rapid.Bool().Draw(t, "memory") {
				c = content.Memory(numbered(2, n))
			}
			parts = append(parts, content.Part{Offset: int64(len(want)), Content: c})
			want = append(want, c.Mapped(guard.Inside)...)
		}
		want = append(want, make([]byte, near.Draw(t, "tail"))...)
		j, err := New(int64(len(want)), parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Fill(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if !bytes.Equal(j.Bytes(), want) {
				t.Fatalf("%d bytes of %d parts differ", len(want), len(parts))
			}
			j.Trim()
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPartsMap(t *testing.T) {
	dir := t.TempDir()
	root := files.NewRoot(dir)
	for name, size := range map[string]int{"a": 300_001, "b": 400_000} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	a, err := root.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := root.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if a.MappedFile() == nil {
		t.Skip("files are not mapped here")
	}
	parts := []content.Part{{Offset: 0, Content: content.Memory([]byte("header"))}, {Offset: 1 << 16, Content: a.All()}, {Offset: 1 << 19, Content: b.All()}}
	j, err := New(1<<20, parts)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if want := int64(6 + 300_001%4096 + 400_000%4096); pageSize() == 4096 && j.Copied() != want {
		t.Errorf("%d bytes are copied, want %d", j.Copied(), want)
	}
	if err := j.Fill(); err != nil {
		t.Fatal(err)
	}
	// A file that is cut short is named, by the position in the file.
	if err := os.Truncate(filepath.Join(dir, "b"), 1000); err != nil {
		t.Fatal(err)
	}
	err = guard.Faults(func() error {
		sum := 0
		for _, c := range j.Bytes()[1<<19:] {
			sum += int(c)
		}
		t.Error("no fault", sum)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "'b': the file shrank from 400000 to 1000 bytes") {
		t.Error(err)
	}
	if _, err := b.All().ReadAt(make([]byte, 100), 950); err == nil || !strings.Contains(err.Error(), "shrank") {
		t.Error(err)
	}
}
