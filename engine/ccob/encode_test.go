package ccob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// onDisk returns the pieces with the contents of entries in files of root.
func onDisk(t *testing.T, root *files.Root, dir string, pieces []content.Part) []content.Part {
	t.Helper()
	list := pieces[:1:1]
	for i, p := range pieces[1:] {
		name := fmt.Sprint("e", i)
		if err := os.WriteFile(filepath.Join(dir, name), p.Content.Mapped(guard.Inside), 0o666); err != nil {
			t.Fatal(err)
		}
		in, err := root.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
		p.Content = in.All()
		list = append(list, p)
	}
	return list
}

// The output depends neither on the number of cores nor on the kinds of input and output.
func TestEncodeFiles(t *testing.T) {
	ctx := context.Background()
	size := 700_000 // of an entry: two frames are encoded at once
	if testing.Short() {
		size = 300_000
	}
	for _, align := range []int64{1, 4096} {
		pieces, raw := sample(align, size, processors...)
		dir := t.TempDir()
		root := files.NewRoot(dir)
		inFiles := onDisk(t, root, dir, pieces)
		for _, how := range []Frames{FramesAuto, FramesEntry, FramesOne} {
			want := encode(t, pieces, EncodeOptions{Frames: how})
			outs := root.Outputs()
			out, err := outs.Create("out")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write([]byte("before")); err != nil {
				t.Fatal(err)
			}
			if _, err := Encode(ctx, out, inFiles, EncodeOptions{Frames: how, Budget: cores}); err != nil {
				t.Fatal(err)
			}
			if err := outs.Commit(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("align %d, frames %d: %d bytes in a file, %d in memory", align, how, len(got), len(want))
			}
			readAll(t, want, raw, Options{Budget: cores})
		}
	}
}

func TestEncodeCutShort(t *testing.T) {
	pieces, _ := sample(4096, 700_000, processors...)
	dir := t.TempDir()
	root := files.NewRoot(dir)
	inFiles := onDisk(t, root, dir, pieces)
	if err := os.Truncate(filepath.Join(dir, "e2"), 5000); err != nil {
		t.Fatal(err)
	}
	_, err := Encode(context.Background(), &content.Buffer{}, inFiles, EncodeOptions{Budget: cores})
	if err == nil || !strings.Contains(err.Error(), "'e2': the file shrank from") {
		t.Error(err)
	}
}

func TestLanes(t *testing.T) {
	var b bytes.Buffer
	l := newLanes(&b, 3)
	write := func(i int, s, want string) {
		t.Helper()
		if _, err := (lane{l, i}).Write([]byte(s)); err != nil || b.String() != want {
			t.Errorf("%q, want %q (%v)", b.String(), want, err)
		}
	}
	end := func(i int, want string) {
		t.Helper()
		if err := (lane{l, i}).Close(); err != nil || b.String() != want {
			t.Errorf("%q, want %q (%v)", b.String(), want, err)
		}
	}
	write(2, "2a ", "")
	write(1, "1a ", "")
	write(0, "0a ", "0a ")
	end(2, "0a ")
	end(0, "0a 1a ")
	write(1, "1b ", "0a 1a 1b ")
	end(1, "0a 1a 1b 2a ")

	l = newLanes(full{}, 2)
	if _, err := (lane{l, 1}).Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := (lane{l, 0}).Close(); err != errFull {
		t.Error(err)
	}
	if _, err := (lane{l, 1}).Write([]byte("x")); err != errFull {
		t.Error(err)
	}
}

// full is a disk without space.
type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }
