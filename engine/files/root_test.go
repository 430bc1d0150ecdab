package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files into a new directory and returns a Root for it.
func tree(t testing.TB, contents map[string]string) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, c := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return NewRoot(dir), dir
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOpen(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 10000)
	root, dir := tree(t, map[string]string{"small": "hello", "empty": "", "big": big, "sub/x": "in sub"})
	for name, want := range map[string]string{
		"small": "hello", "empty": "", "big": big, "sub/x": "in sub", "sub/../small": "hello",
		filepath.Join(dir, "small"): "hello", os.DevNull: "",
	} {
		in, err := root.Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(in.Mapped(guard.Inside)); got != want || in.Name() != name || in.Size() != int64(len(want)) {
			t.Errorf("%s: %d bytes, size %d, name %s", name, len(got), in.Size(), in.Name())
		}
		if got := string(in.All().Mapped(guard.Inside)); got != want {
			t.Errorf("%s: All has %d bytes", name, len(got))
		}
		if n := in.Size() / 2; string(in.Content(n, in.Size()-n).Mapped(guard.Inside)) != want[n:] {
			t.Errorf("%s: wrong second half", name)
		}
		for range 2 {
			if err := in.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
}

func TestOpenMode(t *testing.T) {
	root, dir := tree(t, map[string]string{"x": "x"})
	if err := os.Chmod(filepath.Join(dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := root.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if runtime.GOOS != "windows" && in.Mode() != 0o755 {
		t.Errorf("mode %v", in.Mode())
	}
	if m := FromMemory("y", nil).Mode(); m != 0o666 {
		t.Errorf("mode in memory %v", m)
	}
}

func TestOpenErrors(t *testing.T) {
	root, _ := tree(t, map[string]string{"sub/x": ""})
	for _, tt := range []struct {
		name, msg string
		is        error
	}{
		{"none", "'none': No such file or directory", fs.ErrNotExist},
		{"", "'': No such file or directory", fs.ErrNotExist},
		{"sub", "'sub': Is a directory", syscall.EISDIR},
		{"sub/x/y", "'sub/x/y': Not a directory", syscall.ENOTDIR},
		{"-", "'-': Bad file descriptor", syscall.EBADF},
	} {
		in, err := root.Open(tt.name)
		if message(err) != tt.msg || !errors.Is(err, tt.is) || in != nil {
			t.Errorf("%q: %v", tt.name, err)
		}
		if err := in.Close(); err != nil {
			t.Errorf("closing nothing: %v", err)
		}
	}
	var e *Error
	_, err := root.Open("none")
	if !errors.As(err, &e) || e.Name != "none" || e.Reason() != "No such file or directory" {
		t.Errorf("%#v", err)
	}
}

func TestStdin(t *testing.T) {
	root := NewRoot("")
	root.Stdin = iotest.OneByteReader(strings.NewReader("from a pipe"))
	for range 2 {
		in, err := root.Open("-")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(in.Mapped(guard.Inside)); got != "from a pipe" {
			t.Errorf("%q", got)
		}
		in.Close()
	}
	root = NewRoot("")
	root.Stdin = iotest.ErrReader(syscall.EIO)
	if _, err := root.Open("-"); message(err) != "'-': Input/output error" {
		t.Error(err)
	}
}

func TestDeclared(t *testing.T) {
	root, dir := tree(t, map[string]string{"a/x": "1", "a/y": "2", "tree/1/z": "3", "treefile": "4"})
	root.Declare([]string{"a/x", "tree", ""})
	for name, msg := range map[string]string{
		"a/x":                     "",
		"./a//x":                  "",
		"b/../a/x":                "",
		filepath.Join(dir, "a/x"): "",
		"tree/1/z":                "",
		os.DevNull:                "",
		"a/y":                     "'a/y': not a declared input of the action: declare it as an input",
		"treefile":                "'treefile': not a declared input of the action: declare it as an input",
		"tree/../a/y":             "'tree/../a/y': not a declared input of the action: declare it as an input",
		"bazel-out/cfg/x": "'bazel-out/cfg/x': not a declared input of the action: Bazel does not strip the paths that it sends to local workers: " +
			"set --spawn_strategy=linux-sandbox, or leave out --experimental_output_paths=strip",
		"none":                          "'none': not a declared input of the action: declare it as an input",
		"../x":                          "'../x': is outside of the directory of the action, so it cannot be one of its declared inputs",
		"/etc/passwd":                   "'/etc/passwd': is outside of the directory of the action, so it cannot be one of its declared inputs",
		filepath.Join(dir, "..", "a/x"): "'" + filepath.Join(dir, "..", "a/x") + "': is outside of the directory of the action, so it cannot be one of its declared inputs",
	} {
		in, err := root.Open(name)
		if message(err) != msg {
			t.Errorf("%s: error %q, want %q", name, message(err), msg)
		}
		in.Close()
	}
	outs := root.Outputs()
	defer outs.Abort()
	for name, msg := range map[string]string{
		"out":    "",
		"a/z":    "",
		"./a/x":  "'./a/x': is an input of the action: writing it would destroy the input",
		"../out": "'../out': is outside of the directory of the action, so it cannot be one of its outputs",
	} {
		if _, err := outs.Create(name); message(err) != msg {
			t.Errorf("output %s: error %q, want %q", name, message(err), msg)
		}
	}
}

func TestGuardFileCutShort(t *testing.T) {
	const size = 1 << 20
	root, dir := tree(t, map[string]string{"big": strings.Repeat("x", size)})
	in, err := root.Open("big")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if in.mapping == nil {
		t.Skip("files are not mapped on this system")
	}
	if err := os.Truncate(filepath.Join(dir, "big"), 5000); err != nil {
		t.Fatal(err)
	}
	const want = "'big': the file shrank from 1048576 to 5000 bytes while it was read"
	sum := 0
	read := func() error {
		for _, b := range in.Mapped(guard.Inside) {
			sum += int(b)
		}
		return nil
	}
	if err := guard.Faults(read); message(err) != want {
		t.Errorf("reading: %v", err)
	}
	if err := guard.Contain(read); message(err) != want {
		t.Errorf("reading, contained: %v", err)
	}
	buf := make([]byte, size)
	if err := guard.Faults(func() error { copy(buf, in.Mapped(guard.Inside)); return nil }); message(err) != want {
		t.Errorf("copying: %v", err)
	}
	outs := root.Outputs()
	defer outs.Abort()
	out, err := outs.Create("out")
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Append(in.All()); message(err) != want {
		t.Errorf("in the kernel: %v", err)
	}
	if err := outs.Commit(); message(err) != want {
		t.Errorf("commit: %v", err)
	}
}

// Deferred calls close inputs before Guard recovers, which may map others at the
// same addresses.
func TestGuardFileCutShortAndClosed(t *testing.T) {
	const size = 1 << 20
	root, dir := tree(t, map[string]string{"big": strings.Repeat("x", size), "other": strings.Repeat("y", size)})
	err := guard.Faults(func() error {
		in, err := root.Open("big")
		if err != nil {
			return err
		}
		if in.mapping == nil {
			t.Skip("files are not mapped on this system")
		}
		defer func() {
			in.Close()
			other, err := root.Open("other")
			if err != nil {
				t.Error(err)
			}
			other.Close()
		}()
		if err := os.Truncate(filepath.Join(dir, "big"), 5000); err != nil {
			return err
		}
		sum := 0
		for _, b := range in.Mapped(guard.Inside) {
			sum += int(b)
		}
		t.Error("no fault", sum)
		return nil
	})
	const want = "'big': the file shrank from 1048576 to 5000 bytes while it was read"
	if message(err) != want {
		t.Errorf("error %q, want %q", message(err), want)
	}
}
