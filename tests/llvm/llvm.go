// Package llvm finds what the tests against the real tools need: LLVM 22's
// programs, and this project's own under the names it answers to.
package llvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Dir is where Debian's packages have the programs of LLVM 22.
const Dir = "/usr/lib/llvm-22/bin"

// insideRoot is set for programs that tools/offline/run started.
const insideRoot = "RULES_OFFLOAD_ROOT"

// Main runs the tests of a package and ends the process: call it from TestMain.
// On a machine without LLVM 22 it starts the test program again inside the root
// that bazelw prepares, which has it.
func Main(m *testing.M) {
	if _, err := os.Stat(Dir); err != nil && os.Getenv(insideRoot) == "" && os.Getenv("TEST_SRCDIR") == "" {
		if err := enterRoot(); err != nil {
			fmt.Fprintf(os.Stderr, "LLVM 22 is not in %s, and the root that bazelw prepares cannot be entered: %v\n", Dir, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// enterRoot replaces the process by itself inside the prepared root. It returns
// only when that fails.
func enterRoot() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	run := filepath.Join(root, "tools", "offline", "run")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(run, append([]string{run, self}, os.Args[1:]...), os.Environ())
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Tool returns the path of a program of LLVM 22. Without it the test fails:
// a comparison that did not take place must not look like one that passed.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("LLVM 22's %s is needed: %v. Run the tests by `./bazelw test //tests/...` or `tools/offline/run go test ./tests/...`", name, err)
	}
	return path
}

var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Offload returns the path of this project's program: under Bazel the file that
// the environment variable OFFLOAD names by its rlocationpath, else one built
// now from the sources.
func Offload(t testing.TB) string {
	t.Helper()
	built.once.Do(func() { built.path, built.err = offload() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func offload() (string, error) {
	if runfiles := os.Getenv("TEST_SRCDIR"); runfiles != "" {
		name := os.Getenv("OFFLOAD")
		if name == "" {
			return "", errors.New("the test rule must set OFFLOAD to $(rlocationpath //cmd/offload) and have that in its data")
		}
		return filepath.Join(runfiles, name), nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if built.dir, err = os.MkdirTemp("", "offload"); err != nil {
		return "", err
	}
	path := filepath.Join(built.dir, "offload")
	build := exec.Command("go", "build", "-o", path, "./cmd/offload")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/offload: %w\n%s", err, out)
	}
	return path, nil
}

// DropIn returns a path of the program under the name of the LLVM tool that it
// is to stand in for.
func DropIn(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(Offload(t), path); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return path
}
