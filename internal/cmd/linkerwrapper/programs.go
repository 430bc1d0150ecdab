package linkerwrapper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	called := w.call.Name
	if !strings.ContainsRune(called, filepath.Separator) {
		called = lookPath(called, t.pathEnv)
	}
	if called != "" {
		// A name without a directory would be searched for on PATH.
		if absolute, err := filepath.Abs(called); err == nil {
			called = absolute
		}
		t.dirs = append(t.dirs, filepath.Dir(called))
		if real, err := filepath.EvalSymlinks(called); err == nil && w.canonical && filepath.Dir(real) != filepath.Dir(called) {
			t.dirs = append(t.dirs, filepath.Dir(real))
		}
	}
	if i := strings.LastIndexByte(w.call.Name, '-'); i > 0 {
		if number := w.call.Name[i+1:]; number != "" && strings.Trim(number, "0123456789") == "" {
			t.suffix = "-" + number
		}
	}
	return t
}

// find returns the path of a program of LLVM.
func (t *tools) find(name string) (string, error) {
	for _, dir := range t.dirs {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	names := []string{name}
	if t.suffix != "" {
		names = []string{name + t.suffix, name}
	}
	for _, name := range names {
		if path := lookPath(name, t.pathEnv); path != "" {
			return path, nil
		}
	}
	return t.missing(name)
}

// fatbinary returns the path of NVIDIA's program.
func (t *tools) fatbinary() (string, error) {
	const name = "fatbinary"
	if t.cuda != "" {
		if path := filepath.Join(t.cuda, "bin", name); executable(path) {
			return path, nil
		}
	}
	if path := lookPath(name, t.pathEnv); path != "" {
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

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// lookPath returns the path of a program in the directories of a PATH, "" if it is not found.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		if file := filepath.Join(dir, name); executable(file) {
			if !slices.Contains([]string{"/", "."}, file[:1]) {
				file = "./" + file
			}
			return file
		}
	}
	return ""
}
