package files

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// listing returns the regular files of a directory with their contents,
// following symbolic links to files.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if fi, err := os.Stat(path); err != nil || fi.IsDir() {
			return nil // a link to a directory, or to nothing
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func create(t *testing.T, outs *Outputs, name, body string) *Output {
	t.Helper()
	o, err := outs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return o
}

// bothWays runs a test with files that have no name at first, and with files
// that have a temporary one, as on systems without the former.
func bothWays(t *testing.T, test func(*testing.T)) {
	t.Run("unnamed", test)
	defer func(f func(string, fs.FileMode) (*os.File, error)) { openUnnamed = f }(openUnnamed)
	openUnnamed = func(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }
	t.Run("named", test)
}

func TestCommit(t *testing.T) { bothWays(t, testCommit) }

func testCommit(t *testing.T) {
	root, dir := tree(t, map[string]string{"old": "before", "sub/x": "x"})
	outs := root.Outputs()
	defer outs.Abort()
	create(t, outs, "new", "n")
	create(t, outs, "old", "after")
	create(t, outs, filepath.Join(dir, "sub/y"), "y")
	create(t, outs, "empty", "").Close()
	late := create(t, outs, "late", "l")
	if err := os.WriteFile(filepath.Join(dir, "late"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	late.Zeros(1)
	if got := listing(t, dir)["old"]; got != "before" {
		t.Errorf("%q before the commit", got)
	}
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	outs.Abort()
	want := map[string]string{"new": "n", "old": "after", "sub/x": "x", "sub/y": "y", "empty": "", "late": "l\x00"}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := outs.Commit(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second commit: %v", err)
	}
	if _, err := outs.Create("more"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("create after commit: %v", err)
	}
}

func TestAbort(t *testing.T) { bothWays(t, testAbort) }

func testAbort(t *testing.T) {
	before := map[string]string{"old": "before"}
	root, dir := tree(t, before)
	outs := root.Outputs()
	o := create(t, outs, "old", "after")
	create(t, outs, "new", strings.Repeat("x", 1<<20))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	outs.Abort()
	outs.Abort()
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	if _, err := o.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after abort: %v", err)
	}
	if err := outs.Commit(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("commit after abort: %v", err)
	}
}

// If one output cannot be renamed, the earlier ones are reverted.
func TestCommitAllOrNone(t *testing.T) { bothWays(t, testCommitAllOrNone) }

func testCommitAllOrNone(t *testing.T) {
	root, dir := tree(t, map[string]string{"old": "before", "sub/x": "x"})
	outs := root.Outputs()
	create(t, outs, "old", "after")
	create(t, outs, "new", "n")
	create(t, outs, "sub/y", "y")
	create(t, outs, "last", "l")
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := outs.Commit(); message(err) != "'sub/y': No such file or directory" {
		t.Errorf("error %q", message(err))
	}
	got := listing(t, dir)
	if runtime.GOOS != "linux" {
		delete(got, "old") // replaced files are not restored there
	} else if got["old"] != "before" {
		t.Errorf("old is %q", got["old"])
	}
	for name := range got {
		if name != "old" && !strings.HasPrefix(name, "gone/") {
			t.Errorf("%s was left", name)
		}
	}
}

func TestCreateErrors(t *testing.T) {
	root, dir := tree(t, map[string]string{"in": "1", "sub/x": "2", "late": "3"})
	in, err := root.Open("in")
	if err != nil {
		t.Fatal(err)
	}
	in.Close() // closed inputs count as well
	if err := os.Link(filepath.Join(dir, "in"), filepath.Join(dir, "hard")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("in", filepath.Join(dir, "soft")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}
	outs := root.Outputs()
	defer outs.Abort()
	create(t, outs, "out", "")
	create(t, outs, "sub/out", "")
	const over = ": is the same file as the input 'in': writing it would destroy the input"
	for name, msg := range map[string]string{
		"in":         "'in'" + over,
		"./in":       "'./in'" + over,
		"hard":       "'hard'" + over,
		"soft":       "'soft'" + over,
		"out":        "'out': is the same file as the output 'out': each output must be a separate file",
		"sub/../out": "'sub/../out': is the same file as the output 'out': each output must be a separate file",
		"same/out":   "'same/out': is the same file as the output 'sub/out': each output must be a separate file",
		"sub":        "'sub': Is a directory",
		"none/x":     "'none/x': No such file or directory",
		"in/x":       "'in/x': Not a directory",
		"loop":       "'loop': Too many levels of symbolic links",
		"":           "'': No such file or directory",
		"-":          "'-': Bad file descriptor",
	} {
		if _, err := outs.Create(name); message(err) != msg {
			t.Errorf("%q: error %q, want %q", name, message(err), msg)
		}
	}

	// An input opened after the output was created.
	create(t, outs, "late", "new")
	in, err = root.Open("late")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := outs.Commit(); message(err) != "'late': is the same file as the input 'late': writing it would destroy the input" {
		t.Errorf("commit: %v", err)
	}
	if got := listing(t, dir); got["late"] != "3" || len(got) != 5 {
		t.Errorf("left: %v", got)
	}
}

func TestSymlinkStays(t *testing.T) { bothWays(t, testSymlinkStays) }

func testSymlinkStays(t *testing.T) {
	root, dir := tree(t, map[string]string{"sub/target": "before"})
	for link, to := range map[string]string{"link": "sub/target", "sub/dangling": "../new", "twice": "link"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	outs := root.Outputs()
	create(t, outs, "twice", "after")
	create(t, outs, "sub/dangling", "made")
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"sub/target": "after", "link": "after", "twice": "after", "sub/dangling": "made", "new": "made"}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	if fi, err := os.Lstat(filepath.Join(dir, "link")); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v", fi.Mode())
	}
}

func TestStdout(t *testing.T) {
	var buf bytes.Buffer
	root, dir := tree(t, nil)
	root.Stdout = &buf
	outs := root.Outputs()
	a := create(t, outs, "-", "first")
	create(t, outs, "-", "second")
	create(t, outs, "file", "")
	if err := a.Zeros(2); err != nil {
		t.Fatal(err)
	}
	if buf.Len() != 0 {
		t.Errorf("%q before the commit", buf.String())
	}
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := buf.String(); got != "first\x00\x00second" {
		t.Errorf("%q", got)
	}

	// Output that cannot be written to a stream leaves no temporary file.
	root.Stdout = failing{}
	outs = root.Outputs()
	create(t, outs, "other", "x")
	create(t, outs, "-", "x")
	if err := outs.Commit(); message(err) != "'-': Io: read/write on closed pipe" {
		t.Error(err)
	}
	if got := listing(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Every way to write gives the same bytes, for files and for streams.
func TestOutputProperty(t *testing.T) {
	root, _ := tree(t, map[string]string{"in": strings.Repeat("0123456789abcdef~", 9000), "small": "a small one"})
	var ins []*Input
	for _, name := range []string{"in", "small"} {
		in, err := root.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		ins = append(ins, in)
	}
	ins = append(ins, FromMemory("m", bytes.Repeat([]byte("memory"), 8000)))

	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		root.Stdout = &stream
		outs := root.Outputs()
		defer outs.Abort()
		file, err := outs.Create("out")
		if err != nil {
			t.Fatal(err)
		}
		std, err := outs.Create("-")
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		end := 0
		patch := func(p []byte, off int) {
			if n := off + len(p) - len(want); n > 0 {
				want = append(want, make([]byte, n)...)
			}
			copy(want[off:], p)
		}
		some := func() content.Content {
			in := rapid.SampledFrom(ins).Draw(t, "in")
			off := rapid.Int64Range(0, in.Size()).Draw(t, "from")
			return in.Content(off, rapid.Int64Range(0, in.Size()-off).Draw(t, "n"))
		}
		for range rapid.IntRange(0, 12).Draw(t, "ops") {
			var do func(o *Output) error
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				p := bytes.Repeat([]byte("wr"), rapid.IntRange(0, 50000).Draw(t, "n"))
				patch(p, end)
				end += len(p)
				do = func(o *Output) error { _, err := o.Write(slices.Clone(p)); return err }
			case 1:
				c := some()
				patch(c.Mapped(guard.Inside), end)
				end += int(c.Len())
				do = func(o *Output) error { return o.Append(c) }
			case 2:
				n := rapid.IntRange(0, 10000).Draw(t, "zeros")
				patch(nil, end+n)
				do = func(o *Output) error { return o.Zeros(int64(n)) }
				end += n
			case 3:
				n := rapid.IntRange(0, 10000).Draw(t, "room")
				c := some()
				patch(nil, end+n)
				at := end
				patch(c.Slice(0, min(c.Len(), int64(n))).Mapped(guard.Inside), at)
				end += n
				do = func(o *Output) error {
					off, err := o.Reserve(int64(n))
					if err != nil || off != int64(at) {
						t.Fatalf("room at %d: %v", off, err)
					}
					return o.CopyAt(c.Slice(0, min(c.Len(), int64(n))), off)
				}
			case 4:
				// Only existing bytes are overwritten: later bytes are appended as before.
				off := rapid.IntRange(0, end).Draw(t, "at")
				p := bytes.Repeat([]byte("PATCH"), rapid.IntRange(0, 40).Draw(t, "n"))
				p = p[:min(len(p), end-off)]
				patch(p, off)
				do = func(o *Output) error { _, err := o.WriteAt(p, int64(off)); return err }
			}
			for _, o := range []*Output{file, std} {
				if err := do(o); err != nil {
					t.Fatal(err)
				}
				if o.Size() != int64(len(want)) {
					t.Fatalf("size %d, want %d", o.Size(), len(want))
				}
			}
		}
		if err := outs.Commit(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(root.path("out"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("file: %d bytes, want %d", len(got), len(want))
		}
		if !bytes.Equal(stream.Bytes(), want) {
			t.Fatalf("stream: %d bytes, want %d", stream.Len(), len(want))
		}
	})
}

func TestCopyAtParallel(t *testing.T) {
	const n, size = 40, 100_001
	var src strings.Builder
	for i := range n {
		src.WriteString(strings.Repeat(string(rune('0'+i)), size))
	}
	root, dir := tree(t, map[string]string{"in": src.String()})
	var stream bytes.Buffer
	root.Stdout = &stream
	in, err := root.Open("in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	outs := root.Outputs()
	defer outs.Abort()
	for _, name := range []string{"out", "-"} {
		out := create(t, outs, name, "head")
		base, err := out.Reserve(n * size)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range int64(n) {
			wg.Go(func() {
				if err := out.CopyAt(in.Content(i*size, size), base+i*size); err != nil {
					t.Error(err)
				}
			})
		}
		if _, err := out.Write([]byte("tail")); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	want := "head" + src.String() + "tail"
	if got := listing(t, dir)["out"]; got != want {
		t.Errorf("file: %d bytes", len(got))
	}
	if stream.String() != want {
		t.Errorf("stream: %d bytes", stream.Len())
	}
}

func TestTooLarge(t *testing.T) {
	root, dir := tree(t, nil)
	const want = "'out': File too large"
	for name, do := range map[string]func(o *Output) error{
		"zeros":    func(o *Output) error { return errors.Join(o.Zeros(math.MaxInt64-10), o.Zeros(5000)) },
		"hole":     func(o *Output) error { o.Zeros(math.MaxInt64 - 1); return o.Close() },
		"negative": func(o *Output) error { return o.Zeros(-1) },
		"write": func(o *Output) error {
			_, err := o.WriteAt([]byte("x"), math.MaxInt64)
			return err
		},
		"kernel": func(o *Output) error {
			_, err := o.WriteAt([]byte("x"), math.MaxInt64-10)
			return err
		},
	} {
		outs := root.Outputs()
		o := create(t, outs, "out", "x")
		if err := do(o); message(err) != want {
			t.Errorf("%s: error %q, want %q", name, message(err), want)
		}
		if err := outs.Commit(); message(err) != want {
			t.Errorf("%s: commit %q, want %q", name, message(err), want)
		}
	}
	if got := listing(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestBuffer(t *testing.T) {
	var b content.Buffer
	b.Write([]byte("ab"))
	b.Append(content.Memory([]byte("cd")))
	b.Zeros(2)
	if string(b.Bytes()) != "abcd\x00\x00" || b.Len() != 6 {
		t.Errorf("%q, %d", b.Bytes(), b.Len())
	}
}

func BenchmarkOutput(b *testing.B) {
	root, dir := tree(b, map[string]string{"in": strings.Repeat("x", 32<<20)})
	in, err := root.Open("in")
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	for _, bm := range []struct {
		name  string
		piece int64
	}{{"whole", 32 << 20}, {"1MiB", 1 << 20}, {"100KiB", 100 << 10}, {"20KiB", 20 << 10}, {"1KiB", 1 << 10}} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(in.Size())
			for b.Loop() {
				outs := root.Outputs()
				out, err := outs.Create("out")
				for off := int64(0); off < in.Size() && err == nil; off += bm.piece {
					err = out.Append(in.Content(off, min(bm.piece, in.Size()-off)))
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
	}
}

// Content that exceeds the memory for a stream is written to a temporary file, and later copied to
// its position, with later changes.
func TestLargeStream(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	want := make([]byte, 3*spillFrom+777)
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	dir := t.TempDir()
	var got bytes.Buffer
	root := NewRoot("")
	root.Stdout, root.TempDir = &got, dir
	out := root.Outputs()
	defer out.Abort()
	o, err := out.Create("-")
	if err != nil {
		t.Fatal(err)
	}
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(400<<10))
		if _, err := o.Write(bytes.Clone(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	for range 20 {
		at := r.IntN(len(want))
		patch := bytes.Repeat([]byte{byte(r.Uint32())}, min(len(want)-at, r.IntN(300<<10)))
		copy(want[at:], patch)
		if _, err := o.WriteAt(patch, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes are not those written", got.Len())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
