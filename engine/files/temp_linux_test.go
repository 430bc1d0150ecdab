package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// age sets the time of files to one at which no process uses them any longer.
func age(t *testing.T, dir string, names ...string) {
	t.Helper()
	before := time.Now().Add(-2 * staleAfter)
	for _, name := range names {
		if err := os.Chtimes(filepath.Join(dir, name), before, before); err != nil {
			t.Fatal(err)
		}
	}
}

// leave creates a temporary file like that of a killed process.
func leave(t *testing.T, dir string) string {
	t.Helper()
	f, name, err := createTemp(dir, usualMode)
	if err != nil {
		t.Fatal(err)
	}
	if name == "" {
		o := Output{file: f, dir: dir}
		if err := o.nameTemp(); err != nil {
			t.Fatal(err)
		}
		name = o.temp
	}
	f.Close()
	return filepath.Base(name)
}

// TestRemoveStale leaves temporary files, and files of a user with similar names: only old
// files that the program created are removed.
func TestRemoveStale(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		t.Run(fmt.Sprintf("unnamed=%t", unnamed), func(t *testing.T) {
			if !unnamed {
				defer func(f func(string, fs.FileMode) (*os.File, error)) { openUnnamed = f }(openUnnamed)
				openUnnamed = func(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }
			}
			users := map[string]string{
				"x": "old", ".offload-notes": "mine", ".offload-": "mine", ".offload-1x5v3k2j9q0ab": "mine", "offload-other": "mine",
				".offload-1-2-3": "mine", ".offload-zzzzzzzzzzzzz-1-1": "mine",
			}
			root, dir := tree(t, users)
			old, young, used := leave(t, dir), leave(t, dir), leave(t, dir)
			// A copy of a temporary file under its name has another inode number.
			inode, _ := tempInode(old)
			if err := os.WriteFile(filepath.Join(dir, tempBase(inode+1<<40)), []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
			// A changed name, a directory, a symbolic link.
			changed := old[:len(old)-1] + string(old[len(old)-1]^1)
			if err := os.WriteFile(filepath.Join(dir, changed), []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("offload-other", filepath.Join(dir, tempBase(inode+1<<41))); err != nil {
				t.Fatal(err)
			}
			lock, err := os.Open(filepath.Join(dir, used))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if !lockFile(lock) {
				t.Fatal("the lock is taken")
			}
			before := listing(t, dir)
			for name := range before {
				if name != young {
					age(t, dir, name)
				}
			}
			searched = directories{most: searched.most}
			replace(t, root, "x", "new")
			want := before
			want["x"] = "new"
			delete(want, old)
			if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSearchedDirectories replaces files in many directories: the process remembers a limited
// number of them.
func TestSearchedDirectories(t *testing.T) {
	d := directories{most: 10}
	for i := range 100 {
		name := fmt.Sprint(i)
		if !d.add(name) {
			t.Errorf("%s: found, expected a new one", name)
		}
		if d.add(name) {
			t.Errorf("%s: new, expected to find it", name)
		}
		if len(d.names) > d.most {
			t.Fatalf("%d directories, expected at most %d", len(d.names), d.most)
		}
	}
}

// TestTempInode reads names of temporary files, and others.
func TestTempInode(t *testing.T) {
	for range 1000 {
		name := tempBase(123)
		if inode, ok := tempInode(name); !ok || inode != 123 {
			t.Fatalf("%s: %d, %t", name, inode, ok)
		}
		for _, other := range []string{strings.ToUpper(name), name + "1", name[1:], strings.Replace(name, "-3f-", "-3g-", 1), strings.Replace(name, "-3f-", "-03f-", 1), tempBase(noInode)} {
			if _, ok := tempInode(other); ok {
				t.Fatalf("%s: a name of the program, made from %s", other, name)
			}
		}
	}
}

// Protect is called before a transaction makes what a killed process would leave, and not for one new
// file or one that stays as it is.
func TestProtect(t *testing.T) {
	defer func() { Protect = nil }()
	for name, test := range map[string]struct {
		write func(*Outputs)
		want  bool
	}{
		"a new file":    {func(outs *Outputs) { create(t, outs, "new", "x") }, false},
		"the same file": {func(outs *Outputs) { create(t, outs, "old", "old") }, false},
		"another file":  {func(outs *Outputs) { create(t, outs, "old", "x") }, true},
		"several files": {func(outs *Outputs) { create(t, outs, "a", "x"); create(t, outs, "b", "x") }, true},
		"a directory":   {func(outs *Outputs) { outs.MakeDir("dir") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := tree(t, map[string]string{"old": "old"})
			if f, err := openUnnamed(dir, usualMode); err != nil {
				t.Skip("files always have names here: ", err)
			} else {
				f.Close()
			}
			got := false
			Protect = func() { got = true }
			outs := root.Outputs()
			test.write(outs)
			if err := outs.Commit(); err != nil || got != test.want {
				t.Errorf("got %v, called %t, want no error and %t", err, got, test.want)
			}
		})
	}
}
