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
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/root"
)

// Dir is where Debian's packages have the programs of LLVM 22.
const Dir = "/usr/lib/llvm-22/bin"

// Main runs the tests of a package and ends the process: call it from TestMain.
// On a machine without LLVM 22, or without other programs that they need, they
// run inside the root that bazelw prepares.
func Main(m *testing.M, needs ...string) {
	code := root.Main(m, append(needs, Dir)...)
	scratch.Lock()
	for _, dir := range scratch.dirs {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var scratch struct {
	sync.Mutex
	dirs []string
}

// Scratch returns a new directory that all tests of the package can use: Main
// removes it.
func Scratch() (string, error) {
	dir, err := os.MkdirTemp("", "offload")
	if err == nil {
		scratch.Lock()
		defer scratch.Unlock()
		scratch.dirs = append(scratch.dirs, dir)
	}
	return dir, err
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
	if root.Bazel() {
		return root.Runfile("OFFLOAD")
	}
	project, err := root.Project()
	if err != nil {
		return "", err
	}
	dir, err := Scratch()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "offload")
	build := exec.Command("go", "build", "-ldflags=-E offload_entry", "-o", path, "./cmd/offload")
	build.Dir = project
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
