package linkerwrapper

import (
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

// tools finds programs.
type tools struct {
	dirs    []string
	suffix  string // of the release: -22
	cuda    string
	dryRun  bool
	pathEnv string
}

// tools returns the directories to search for LLVM's programs: those of the program, before and
// after resolving symbolic links, then PATH.
func (w *wrapper) tools() *tools {
	t := &tools{cuda: w.cudaPath, dryRun: w.opt.DryRun, pathEnv: w.env("PATH")}
	t.dirs = release.Dirs(w.call.Name, t.pathEnv, w.canonical)
	if n, ok := release.OfName(w.call.Name); ok {
		t.suffix = fmt.Sprint("-", n)
	}
	return t
}

// find returns the path of a program of LLVM.
func (t *tools) find(name string) (string, error) {
	for _, dir := range t.dirs {
		if path := filepath.Join(dir, name); release.Executable(path) {
			return path, nil
		}
	}
	names := []string{name}
	if t.suffix != "" {
		names = []string{name + t.suffix, name}
	}
	for _, name := range names {
		if path := release.LookPath(name, t.pathEnv); path != "" {
			return path, nil
		}
	}
	return t.missing(name)
}

// fatbinary returns the path of NVIDIA's program.
func (t *tools) fatbinary() (string, error) {
	const name = "fatbinary"
	if t.cuda != "" {
		if path := filepath.Join(t.cuda, "bin", name); release.Executable(path) {
			return path, nil
		}
	}
	if path := release.LookPath(name, t.pathEnv); path != "" {
		return path, nil
	}
	return t.missing(name)
}

// missing handles a missing program: a dry run requires only its name.
func (t *tools) missing(name string) (string, error) {
	if t.dryRun {
		return name, nil
	}
	return "", fmt.Errorf("Unable to find '%s' in path", name)
}
