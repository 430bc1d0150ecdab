package offload

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// headers follows the includes of the sources of a group through the headers
// of the package, and sets what it finds: hdrs, local, elsewhere.
func (g *generator) headers(gr *group) {
	seen := make(map[string]bool)
	var queue []string
	for _, src := range gr.srcs {
		queue = append(queue, path.Join(g.Rel, src))
	}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		if seen[file] {
			continue
		}
		seen[file] = true
		s := g.scanFile(g.Config.RepoRoot, file)
		if s == nil {
			continue
		}
		for _, inc := range s.includes {
			header, ours := g.ownHeader(inc)
			library := ""
			if ours && gr.leaf {
				library = g.headerOf(header)
			}
			switch {
			case !ours:
				gr.elsewhere = append(gr.elsewhere, inc)
			case library != "":
				if dep := ":" + library; !slices.Contains(gr.local, dep) {
					gr.local = append(gr.local, dep)
				}
			default:
				queue = append(queue, path.Join(g.Rel, header))
				if !slices.Contains(gr.hdrs, header) && path.Join(g.Rel, header) != inc.file {
					gr.hdrs = append(gr.hdrs, header)
				}
			}
		}
	}
	slices.Sort(gr.hdrs)
}

// headerOf returns the library of the package that has a header: the
// one named after it, or the only one.
func (g *generator) headerOf(header string) string {
	var only string
	for _, gr := range g.groups {
		if !isLinked(gr.kind) || gr.leaf || !slices.Contains(gr.hdrs, header) {
			continue
		}
		if slices.ContainsFunc(gr.srcs, func(src string) bool { return stemOf(src) == stemOf(header) }) {
			return gr.name
		}
		if only != "" {
			return ""
		}
		only = gr.name
	}
	return only
}

// ownHeader returns the header that an include means, by its path in the
// package, if it is one of the package and in no library of its own there.
func (g *generator) ownHeader(inc include) (string, bool) {
	if inc.angle {
		return "", false
	}
	for _, file := range inc.candidates() {
		name, inside := pathIn(g.Rel, file)
		if !inside {
			if isFile(g.Config.RepoRoot, file) {
				return "", false
			}
			continue
		}
		if !slices.Contains(g.GenFiles, name) {
			if !isFile(g.Config.RepoRoot, file) {
				continue
			}
			if pkg, ok := g.packageOf(g.Config, file); ok && len(pkg) > len(g.Rel) {
				return "", false
			}
		}
		for _, lib := range g.libraries[g.Rel] {
			if lib.provides(g.Config, file) {
				return "", false
			}
		}
		return name, true
	}
	return "", false
}

// candidates returns where a compiler looks for an include in quotes: beside
// the file that has it, then from the root of the repository.
func (inc include) candidates() []string {
	var files []string
	for _, file := range []string{path.Join(path.Dir(inc.file), inc.path), inc.path} {
		if !strings.HasPrefix(file, "../") && !path.IsAbs(file) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// isFile reports whether there is a file at a path in the repository.
func isFile(root, file string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
	return err == nil && info.Mode().IsRegular()
}
