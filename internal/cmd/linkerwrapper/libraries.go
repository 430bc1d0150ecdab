package linkerwrapper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// library returns the file of an option -l.
func (w *wrapper) library(name string) (string, error) {
	names := []string{"lib" + name + ".so", "lib" + name + ".a"}
	if w.windows() { // as the linkers of MinGW
		names = []string{"lib" + name + ".dll.a", "lib" + name + ".a"}
	}
	if file, ok := strings.CutPrefix(name, ":"); ok {
		names = []string{file}
	} else if strings.HasSuffix(name, ".lib") {
		names = []string{name}
	}
	if path := w.inSearch(names...); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("unable to find library -l%s", name)
}

// inSearch returns the path of the first file of one of the names in the
// directories of libraries, "" for none.
func (w *wrapper) inSearch(names ...string) string {
	for _, dir := range w.search {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path
			}
		}
	}
	return ""
}

// input returns the file that a word of the command line names. For Windows, it searches for
// missing libraries in the directories of -libpath.
func (w *wrapper) input(name string) string {
	if !w.windows() || !strings.HasSuffix(strings.ToLower(name), ".lib") {
		return name
	}
	if _, err := os.Stat(name); err == nil {
		return name
	}
	if path := w.inSearch(name); path != "" {
		return path
	}
	return name
}

// windows reports whether the host link is for Windows.
func (w *wrapper) windows() bool { return target.ParseTriple(w.opt.HostTriple).OS == "windows" }
