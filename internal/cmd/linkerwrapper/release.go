package linkerwrapper

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

var (
	inPath    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:llvm|clang)(?:\+\+)?-([1-9][0-9])(?:$|[./-])`) })
	inVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`clang version ([0-9]+)\.`) })
)

// release returns the number of the LLVM release to follow: that of the environment variable,
// or else that of the clang for device links, from its path or its output.
func (w *wrapper) release(t *tools) (target.Release, error) {
	if value, _ := w.call.LookupEnv(release.Variable); value != "" {
		r, err := release.FromEnv(w.call.LookupEnv)
		return r.Release, err
	}
	if t.suffix != "" {
		n, _ := strconv.Atoi(t.suffix[1:])
		return target.Release(n), nil
	}
	clang, err := t.find("clang")
	if err != nil || filepath.Base(clang) == clang {
		return release.Default, nil
	}
	if real, err := filepath.EvalSymlinks(clang); err == nil {
		if m := inPath().FindStringSubmatch(real); m != nil {
			n, _ := strconv.Atoi(m[1])
			return target.Release(n), nil
		}
	}
	out, err := exec.Command(clang, "--version").Output()
	if m := inVersion().FindSubmatch(out); err == nil && m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return target.Release(n), nil
	}
	return release.Default, nil
}
