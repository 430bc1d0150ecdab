//go:build unix

package files

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

func TestFIFO(t *testing.T) {
	root, dir := tree(t, nil)
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Skip(err)
	}
	want := strings.Repeat("through the pipe ", 20000)
	outs := root.Outputs()
	create(t, outs, "fifo", want)
	done := make(chan error)
	go func() { done <- outs.Commit() }()
	in, err := root.Open("fifo")
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := string(in.Mapped(guard.Inside)); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	in.Close()
	if fi, err := os.Stat(fifo); err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
}

// device makes a character device like /dev/null or /dev/full, so that a fault does not replace that of the
// machine.
func device(t *testing.T, name string, minor uint32) {
	t.Helper()
	err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor)))
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	}
	if err != nil {
		t.Skipf("no device can be made here, which requires root: %v; TestFIFO tests outputs that are not regular files", err)
	}
}

// Devices are written to, not replaced, also by the names of symbolic links to them.
func TestDevices(t *testing.T) {
	root, dir := tree(t, nil)
	device(t, filepath.Join(dir, "null"), 3)
	if err := os.Symlink("null", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		outs := root.Outputs()
		for _, name := range []string{"null", "link", "./null", filepath.Join(dir, "null"), "null"} {
			create(t, outs, name, "x")
		}
		if err := outs.Commit(); err != nil {
			t.Error(err)
		}
		if err := root.WriteFile(t.Context(), "link", func(output *Output) error { return output.Zeros(1 << 20) }); err != nil {
			t.Error(err)
		}
		outs = root.Outputs()
		create(t, outs, "null", "x")
		outs.Abort()
		in, err := root.Open("null")
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	if fi, err := os.Lstat(filepath.Join(dir, "null")); err != nil || fi.Mode()&fs.ModeCharDevice == 0 {
		t.Error("the device was replaced")
	}
	if to, err := os.Readlink(filepath.Join(dir, "link")); to != "null" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// An output that a device does not accept leaves no other output.
func TestFullDevice(t *testing.T) {
	root, dir := tree(t, nil)
	full := filepath.Join(t.TempDir(), "full")
	device(t, full, 7)
	outs := root.Outputs()
	create(t, outs, "file", "x")
	create(t, outs, full, "x")
	if err := outs.Commit(); message(err) != "'"+full+"': No space left on device" {
		t.Error(err)
	}
	if got := listing(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// An open file that is named by its descriptor is written to, not replaced.
func TestDescriptor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root, _ := tree(t, nil)
	link := filepath.Join(filepath.Dir(f.Name()), "link")
	if err := os.Symlink("/dev/fd/"+strconv.Itoa(int(f.Fd())), link); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(link); err != nil {
		t.Skip(err)
	}
	outs := root.Outputs()
	create(t, outs, link, "hello")
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestModes(t *testing.T) {
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	root, dir := tree(t, nil)
	outs := root.Outputs()
	create(t, outs, "plain", "")
	create(t, outs, "program", "").SetMode(0o777)
	create(t, outs, "private", "").SetMode(0o600)
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"plain": 0o640, "program": 0o750, "private": 0o600} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, want %v", name, fi.Mode(), want)
		}
	}
}

func TestWriteProtected(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is protected from root")
	}
	root, dir := tree(t, map[string]string{"file": "x"})
	if err := os.Chmod(filepath.Join(dir, "file"), 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Outputs().Create("file"); message(err) != "'file': Permission denied" {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o777)
	if _, err := root.Outputs().Create("new"); message(err) != "'new': Permission denied" {
		t.Error(err)
	}
}

// Copies inside the kernel fall back where the file systems differ.
func TestOtherFileSystem(t *testing.T) {
	const shm = "/dev/shm"
	other, err := os.MkdirTemp(shm, "")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(other)
	want := strings.Repeat("0123456789", 100_000)
	in := filepath.Join(other, "in")
	if err := os.WriteFile(in, []byte(want), 0o666); err != nil {
		t.Skip(err)
	}
	root, dir := tree(t, nil)
	input, err := root.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	outs := root.Outputs()
	out := create(t, outs, "out", "head")
	if err := out.Append(input.All()); err != nil {
		t.Fatal(err)
	}
	if err := outs.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, dir)["out"]; got != "head"+want {
		t.Errorf("%d bytes", len(got))
	}
}

// Files of /proc have no size but content.
func TestProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		t.Skip(err)
	}
	in, err := NewRoot("").Open("/proc/self/maps")
	if err != nil || in.Size() == 0 {
		t.Errorf("%v, %v", in, err)
	}
	in.Close()
}

func TestHole(t *testing.T) {
	root, dir := tree(t, nil)
	outs := root.Outputs()
	out := create(t, outs, "out", "x")
	if err := out.Zeros(1 << 36); err != nil {
		t.Fatal(err)
	}
	if err := outs.Commit(); err != nil {
		t.Skip(err) // a file system that has no holes or no files that large
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "out"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != 1<<36+1 || st.Blocks > 1000 {
		t.Errorf("size %d in %d blocks", st.Size, st.Blocks)
	}
}
