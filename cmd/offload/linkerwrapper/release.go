package linkerwrapper

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// releaseVariable names the release of LLVM whose tool the program stands for.
const releaseVariable = "OFFLOAD_LLVM_VERSION"

// defaultRelease is for dry runs without a clang.
const defaultRelease = 22

var (
	inPath    = regexp.MustCompile(`(?:llvm|clang)(?:\+\+)?-([1-9][0-9])(?:$|[./-])`)
	inVersion = regexp.MustCompile(`clang version ([0-9]+)\.`)
)

// release returns the release of LLVM to be like: that of the variable, else that
// of the clang which links for devices, by its path or by asking it.
func (w *wrapper) release(t *tools) int {
	if n, err := strconv.Atoi(w.env(releaseVariable)); err == nil && n > 0 {
		return n
	}
	if t.suffix != "" {
		n, _ := strconv.Atoi(t.suffix[1:])
		return n
	}
	clang, err := t.find("clang")
	if err != nil || !filepath.IsAbs(clang) && filepath.Base(clang) == clang {
		return defaultRelease
	}
	if real, err := filepath.EvalSymlinks(clang); err == nil {
		if m := inPath.FindStringSubmatch(real); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	out, err := exec.Command(clang, "--version").Output()
	if m := inVersion.FindSubmatch(out); err == nil && m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return defaultRelease
}
