package files

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nobody is the user that tests run as to apply permissions that do not
// restrict root.
const nobody = 65534

// asNobody has the calling goroutine meet the permissions of an ordinary user. In a
// namespace that knows no other user, as that of Bazel's sandbox, it is root
// without root's capabilities.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread() // the thread ends with the test
	if othersExist(t) {
		if err := unix.Setfsuid(nobody); err != nil {
			t.Error(err)
		}
		if err := unix.Setfsgid(nobody); err != nil {
			t.Error(err)
		}
		return
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		t.Error(err)
	}
}

// othersExist reports whether files can belong to somebody else than the process:
// it is root, and its user namespace has more users.
func othersExist(t *testing.T) bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "of somebody else")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Error(err)
	}
	return os.Chown(file, nobody, nobody) == nil
}

func replace(t *testing.T, root *Root, name, content string) {
	t.Helper()
	outs := root.Outputs()
	defer outs.Abort()
	create(t, outs, name, content)
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func status(t *testing.T, name string) *syscall.Stat_t {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t)
}

// The properties of the old file other than its bytes are kept.
func TestReplace(t *testing.T) { bothWays(t, testReplace) }

func testReplace(t *testing.T) {
	t.Run("mode", func(t *testing.T) {
		root, dir := tree(t, map[string]string{"x": "a longer content than the new one"})
		x := filepath.Join(dir, "x")
		for _, mode := range []os.FileMode{0o600, 0o755, 0o664} {
			if err := os.Chmod(x, mode); err != nil {
				t.Fatal(err)
			}
			replace(t, root, "x", "new")
			if got := os.FileMode(status(t, x).Mode & 0o777); got != mode || read(t, x) != "new" {
				t.Errorf("mode %o, content %q; want %o", got, read(t, x), mode)
			}
		}
	})
	t.Run("hard links", func(t *testing.T) {
		root, dir := tree(t, map[string]string{"x": "a longer content than the new one"})
		if err := os.Link(filepath.Join(dir, "x"), filepath.Join(dir, "y")); err != nil {
			t.Fatal(err)
		}
		replace(t, root, "x", "new")
		if got := read(t, filepath.Join(dir, "y")); got != "new" {
			t.Errorf("the other name has %q", got)
		}
	})
	t.Run("owner", func(t *testing.T) {
		if !othersExist(t) {
			t.Log("no file can belong to somebody else here; the tests with the race detector run where one can")
			return
		}
		root, dir := tree(t, map[string]string{"x": "old"})
		x := filepath.Join(dir, "x")
		if err := os.Chown(x, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		replace(t, root, "x", "new")
		if st := status(t, x); st.Uid != nobody || st.Gid != nobody {
			t.Errorf("owner %d:%d", st.Uid, st.Gid)
		}
	})
	t.Run("folder that cannot be written", func(t *testing.T) {
		root, dir := tree(t, map[string]string{"sub/x": "a longer content than the new one"})
		sub, x := filepath.Join(dir, "sub"), filepath.Join(dir, "sub/x")
		if err := os.Chmod(x, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(sub, 0o555); err != nil {
			t.Fatal(err)
		}
		reachable(t, dir)
		inode := status(t, x).Ino
		done := make(chan struct{})
		go func() {
			defer close(done)
			asNobody(t)
			replace(t, root, "sub/x", "new")
			// An output can also be closed before the others are written.
			err := root.WriteFile(t.Context(), "sub/x", func(output *Output) error {
				_, err := output.Write([]byte("newest"))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}()
		<-done
		if status(t, x).Ino != inode || read(t, x) != "newest" {
			t.Errorf("content %q", read(t, x))
		}
		if left, _ := os.ReadDir(sub); len(left) != 1 {
			t.Errorf("%d files in the folder", len(left))
		}
	})
	t.Run("sticky folder", func(t *testing.T) {
		if !othersExist(t) {
			t.Log("no file can belong to somebody else here; the tests with the race detector run where one can")
			return
		}
		root, dir := tree(t, map[string]string{"sub/x": "a longer content than the new one"})
		x := filepath.Join(dir, "sub/x")
		for name, mode := range map[string]os.FileMode{x: 0o666, filepath.Join(dir, "sub"): 0o777 | os.ModeSticky} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		reachable(t, dir)
		done := make(chan struct{})
		go func() {
			defer close(done)
			asNobody(t)
			replace(t, root, "sub/x", "new")
		}()
		<-done
		if st := status(t, x); st.Uid != 0 || read(t, x) != "new" {
			t.Errorf("owner %d, content %q", st.Uid, read(t, x))
		}
	})
}

// reachable lets everybody look into a temporary directory of a test.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// Inputs that change while a request runs would produce wrong outputs.
func TestInputChanges(t *testing.T) {
	big := strings.Repeat("x", mapFrom)
	for _, c := range []struct {
		name   string
		change func(name string) error
		closed bool
		want   string
	}{
		{"same size", func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("y", mapFrom)), 0o666) }, false,
			"'in': the file was modified while it was read: try again when no process writes to it"},
		{"closed before", func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("y", mapFrom)), 0o666) }, true,
			"'in': the file was modified while it was read: try again when no process writes to it"},
		{"cut in its last page", func(name string) error { return os.Truncate(name, mapFrom-1) }, false,
			fmt.Sprintf("'in': the file changed from %d to %d bytes while it was read: try again when no process writes to it", mapFrom, mapFrom-1)},
		{"replaced by another file", func(name string) error {
			if err := os.WriteFile(name+".new", []byte("new"), 0o666); err != nil {
				return err
			}
			return os.Rename(name+".new", name) // the reader still sees the complete old file
		}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, dir := tree(t, map[string]string{"in": big})
			in, err := root.Open("in")
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			outs := root.Outputs()
			defer outs.Abort()
			create(t, outs, "out", "new")
			time.Sleep(20 * time.Millisecond) // the clock of a file system can be coarse
			if err := c.change(filepath.Join(dir, "in")); err != nil {
				t.Fatal(err)
			}
			if c.closed {
				in.Close()
			}
			if err := outs.Commit(); message(err) != c.want {
				t.Errorf("error %q, want %q", message(err), c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); (err == nil) != (c.want == "") {
				t.Errorf("the output: %v", err)
			}
		})
	}
}

// A request may have more outputs than a process may have open files.
func TestManyOutputs(t *testing.T) { bothWays(t, testManyOutputs) }

func testManyOutputs(t *testing.T) {
	root, dir := tree(t, nil)
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	few := usual
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
			t.Fatal(err)
		}
	}()
	const n = 200
	outs := root.Outputs()
	defer outs.Abort()
	var all []*Output
	for i := range n {
		all = append(all, create(t, outs, fmt.Sprint(i), "first "))
	}
	for i, o := range all {
		if _, err := o.WriteAt([]byte(fmt.Sprint(i)), 6); err != nil {
			t.Fatal(err)
		}
	}
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	got := listing(t, dir)
	for i := range n {
		if got[fmt.Sprint(i)] != fmt.Sprintf("first %d", i) {
			t.Errorf("output %d has %q", i, got[fmt.Sprint(i)])
		}
	}
	if len(got) != n {
		t.Errorf("%d files", len(got))
	}
}

// A worker's output stays in the sandbox, whatever links it contains.
func TestSandboxLinks(t *testing.T) {
	_, outside := tree(t, map[string]string{"victim": "before"})
	root, dir := tree(t, map[string]string{"sub/x": ""})
	root.Declare([]string{"in"})
	for name, to := range map[string]string{"file": filepath.Join(outside, "victim"), "folder": outside, "inside": "sub/y"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "folder/new"} {
		outs := root.Outputs()
		if _, err := outs.Create(name); err == nil || !strings.Contains(err.Error(), "points out of the sandbox") {
			t.Errorf("%s: %v", name, err)
		}
		outs.Abort()
	}
	replace(t, root, "inside", "y")
	if got := read(t, filepath.Join(dir, "sub/y")); got != "y" {
		t.Errorf("inside: %q", got)
	}
	if got := listing(t, outside); len(got) != 1 || got["victim"] != "before" {
		t.Errorf("outside: %v", got)
	}
}
