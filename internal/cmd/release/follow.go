package release

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// Follow returns the release that a drop-in follows: that of Number, with the clang in its directory, before
// and after resolving symbolic links. If the release is not known, it is the nearest one that is.
func Follow(ctx context.Context, call *command.Call) (Release, error) {
	number, err := Number(ctx, call, func() string {
		path, _ := call.LookupEnv("PATH")
		for _, dir := range Dirs(call.Name, path, true) {
			if clang := filepath.Join(dir, "clang"); Executable(clang) {
				return clang
			}
		}
		return ""
	})
	return Nearest(number), err
}

// Number returns the number of the release of the environment variable, or else that in the name of the
// drop-in (clang-offload-bundler-23), or else that of the clang at a path, or else Default. clang returns
// the path, "" for none.
func Number(ctx context.Context, call *command.Call, clang func() string) (target.Release, error) {
	if value, _ := call.LookupEnv(Variable); value != "" {
		return parse(value)
	}
	if n, ok := OfName(call.Name); ok {
		return n, nil
	}
	if path := clang(); path != "" {
		return OfClang(ctx, path), nil
	}
	return Default, nil
}

// Nearest returns the supported release that is nearest to a number.
func Nearest(number target.Release) Release {
	nearest := number.Nearest()
	return releases[slices.IndexFunc(releases, func(r Release) bool { return r.Release == nearest })]
}

// OfName returns the release in the name of a tool, which packages append: 23 of
// clang-linker-wrapper-23.
func OfName(name string) (target.Release, bool) {
	name = strings.TrimSuffix(filepath.Base(name), ".exe")
	number, _, _ := strings.Cut(name[strings.LastIndexByte(name, '-')+1:], ".")
	n, err := strconv.ParseUint(number, 10, 16)
	return target.Release(n), err == nil
}

// OfClang returns the release of a clang, from its path or its output, or Default.
func OfClang(ctx context.Context, clang string) target.Release {
	if real, err := filepath.EvalSymlinks(clang); err == nil {
		if n, ok := ofPath(real); ok {
			return n
		}
	}
	if out, err := exec.CommandContext(ctx, clang, "--version").Output(); err == nil {
		_, version, _ := strings.Cut(string(out), "clang version ")
		number, _, _ := strings.Cut(version, ".")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			return target.Release(n)
		}
	}
	return Default
}

// ofPath returns the release that a path names: two digits after llvm-, clang- or clang++-.
func ofPath(path string) (target.Release, bool) {
	for before, rest, found := strings.Cut(path, "-"); found; before, rest, found = strings.Cut(rest, "-") {
		before = strings.TrimSuffix(before, "++")
		if !strings.HasSuffix(before, "llvm") && !strings.HasSuffix(before, "clang") {
			continue
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 2 && rest[0] != '0' && (len(rest) == 2 || strings.IndexByte("./-", rest[2]) >= 0) {
			n, err := strconv.Atoi(rest[:2])
			return target.Release(n), err == nil
		}
	}
	return 0, false
}

// Dirs returns the directories in which a program that was called under a name searches for other
// programs: its own directory, and if resolve is set, the one to which symbolic links lead. path is
// the variable PATH.
func Dirs(called, path string, resolve bool) (dirs []string) {
	if !strings.ContainsRune(called, filepath.Separator) {
		called = LookPath(called, path)
	}
	if called == "" {
		return nil
	}
	// A name without a directory would be searched for on PATH.
	if absolute, err := filepath.Abs(called); err == nil {
		called = absolute
	}
	dirs = append(dirs, filepath.Dir(called))
	if real, err := filepath.EvalSymlinks(called); resolve && err == nil && filepath.Dir(real) != filepath.Dir(called) {
		dirs = append(dirs, filepath.Dir(real))
	}
	return dirs
}

// Executable reports whether a file is a program.
func Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// LookPath returns the path of a program in the directories of a PATH, "" if it is not found.
func LookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		if file := filepath.Join(dir, name); Executable(file) {
			if !slices.Contains([]string{"/", "."}, file[:1]) {
				file = "./" + file
			}
			return file
		}
	}
	return ""
}
