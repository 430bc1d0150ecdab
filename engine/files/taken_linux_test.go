package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Something else than a file that takes the name of an output before the commit stays where it is. The commit
// fails, and leaves nothing behind.
func TestNameTaken(t *testing.T) { bothWays(t, testNameTaken) }

func testNameTaken(t *testing.T) {
	for _, other := range []struct {
		kind string
		make func(name string) error
		want os.FileMode
	}{
		{"a directory", func(name string) error {
			if err := os.Mkdir(name, 0o777); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(name, "file"), []byte("of another process"), 0o666)
		}, os.ModeDir},
		{"a directory", func(name string) error { return os.Mkdir(name, 0o777) }, os.ModeDir},
		{"a symbolic link", func(name string) error { return os.Symlink("elsewhere", name) }, os.ModeSymlink},
		{"a pipe", func(name string) error { return unix.Mkfifo(name, 0o666) }, os.ModeNamedPipe},
	} {
		for _, output := range []struct {
			name   string
			before string // "" for none
			link   bool
			close  bool
		}{
			{"replaced", "a longer content than the new one", false, false},
			{"replaced, closed before", "a longer content than the new one", false, true},
			{"same bytes", "new", false, false},
			{"same bytes, closed before", "new", false, true},
			{"written in place", "a longer content than the new one", true, false},
			{"new", "", false, false},
		} {
			t.Run(other.kind+"/"+output.name, func(t *testing.T) {
				root, dir := tree(t, map[string]string{"first": "before"})
				x, away := filepath.Join(dir, "x"), filepath.Join(t.TempDir(), "y")
				if output.before != "" {
					if err := os.WriteFile(x, []byte(output.before), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				if output.link {
					if err := os.Link(x, away); err != nil {
						t.Fatal(err)
					}
				}
				outs := root.Outputs()
				defer outs.Abort()
				create(t, outs, "first", "after")
				o := create(t, outs, "x", "new")
				if output.close {
					if err := o.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.RemoveAll(x); err != nil {
					t.Fatal(err)
				}
				if err := other.make(x); err != nil {
					t.Fatal(err)
				}
				want := "'x': " + other.kind + " took its place while it was written, expected a file: remove it, or choose another name"
				if err := outs.Commit(); message(err) != want {
					t.Errorf("error %q, want %q", message(err), want)
				}
				fi, err := os.Lstat(x)
				if err != nil || fi.Mode().Type() != other.want {
					t.Fatalf("found %v, error %v", fi, err)
				}
				if fi.IsDir() {
					if left, err := os.ReadDir(x); err != nil || len(left) == 1 && read(t, filepath.Join(x, "file")) != "of another process" {
						t.Errorf("the directory has %v, error %v", left, err)
					}
				}
				if got := read(t, filepath.Join(dir, "first")); got != "before" {
					t.Errorf("the other output has %q", got)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
					t.Errorf("the directory has %v, error %v", left, err)
				}
			})
		}
	}
}

// changing is a stream that changes a file when it is written, which is during the commit.
type changing func() error

func (c changing) Write(p []byte) (int, error) { return len(p), c() }

// An output that equals the existing file replaces bytes that another process writes before the commit, or
// during it.
func TestSameBytesChange(t *testing.T) {
	for _, change := range []struct {
		name string
		do   func(name string) error
	}{
		{"other bytes", func(name string) error { return os.WriteFile(name, []byte("CONTENT"), 0o666) }},
		{"more bytes", func(name string) error { return os.WriteFile(name, []byte("content and more"), 0o666) }},
		{"no bytes", func(name string) error { return os.Truncate(name, 0) }},
		{"removed", os.Remove},
		{"another file", func(name string) error {
			if err := os.Remove(name); err != nil {
				return err
			}
			return os.WriteFile(name, []byte("CONTENT"), 0o666)
		}},
	} {
		for _, during := range []bool{false, true} {
			for _, content := range []string{"content", ""} {
				root, dir := tree(t, map[string]string{"x": content})
				x := filepath.Join(dir, "x")
				write := func() error { return change.do(x) }
				root.Stdout = changing(func() error {
					if during {
						return write()
					}
					return nil
				})
				outs := root.Outputs()
				if err := create(t, outs, "x", content).Close(); err != nil {
					t.Fatal(err)
				}
				create(t, outs, "-", "a stream")
				if !during {
					if err := write(); err != nil {
						t.Fatal(err)
					}
				}
				if err := outs.Commit(); err != nil {
					t.Errorf("%s: %v", change.name, err)
				}
				if got := read(t, x); got != content {
					t.Errorf("%s, during the commit %t: the file has %q, want %q", change.name, during, got, content)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
					t.Errorf("%s: the directory has %v, error %v", change.name, left, err)
				}
				if n := outs.gathered.Load(); n != 0 {
					t.Errorf("%s: %d bytes still count as gathered", change.name, n)
				}
			}
		}
	}
}

// In a directory that only permits new files, no temporary file is left: existing files are written in place.
func TestAppendOnlyDirectory(t *testing.T) { bothWays(t, testAppendOnlyDirectory) }

func testAppendOnlyDirectory(t *testing.T) {
	root, dir := tree(t, map[string]string{"sub/x": "a longer content than the new one", "sub/same": "same"})
	sub := filepath.Join(dir, "sub")
	set, err := setAppendOnly(sub, true)
	if err != nil {
		t.Fatal(err)
	}
	if !set {
		t.Log("directories cannot be set to append-only here; the test only says that one is")
		defer func(f func(string) bool) { appendOnly = f }(appendOnly)
		appendOnly = func(name string) bool { return name == sub }
	}
	defer func() {
		if _, err := setAppendOnly(sub, false); err != nil {
			t.Error(err)
		}
	}()
	inode := status(t, filepath.Join(sub, "x")).Ino
	for _, closed := range []bool{false, true} {
		outs := root.Outputs()
		defer outs.Abort()
		for name, content := range map[string]string{"sub/x": "new", "sub/same": "same"} {
			if o := create(t, outs, name, content); closed {
				if err := o.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := outs.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := status(t, filepath.Join(sub, "x")).Ino; got != inode || read(t, filepath.Join(sub, "x")) != "new" {
			t.Errorf("closed %t: content %q, another file: %t", closed, read(t, filepath.Join(sub, "x")), got != inode)
		}
	}
	if _, err := root.NewTree("sub/tree"); err == nil {
		t.Error("a new tree was begun")
	}
	outs := root.Outputs()
	defer outs.Abort()
	created := true
	if o, err := outs.Create("sub/new"); err != nil {
		created = false // without unnamed files
	} else if _, err := io.Copy(o, strings.NewReader("new")); err != nil {
		t.Error(err)
	} else if err := outs.Commit(); err != nil {
		t.Error(err)
	}
	want := map[bool]string{true: "new same x", false: "same x"}[created]
	var names []string
	left, err := os.ReadDir(sub)
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("the directory has %s, error %v, want %s", got, err, want)
	}
}

// setAppendOnly sets whether a directory only permits new files, and reports whether the system let it.
func setAppendOnly(dir string, only bool) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return false, nil
	}
	const appendOnly = 0x20 // FS_APPEND_FL
	if only {
		flags |= appendOnly
	} else {
		flags &^= appendOnly
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)) == nil, nil
}
