package offload

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// headers follows the includes of the sources of a group through the headers of the package,
// and sets hdrs, local and elsewhere.
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
			header, folder, ours := g.ownHeader(inc)
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
				if folder != "" && !slices.Contains(gr.includes, folder) {
					gr.includes = append(gr.includes, folder)
				}
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

// ownHeader returns the header of an include, by its path in the package, if the header is in
// the package and not in a separate library there. folder is the folder of the package that
// compilers must search for it, "" if they search it by default.
func (g *generator) ownHeader(inc include) (header, folder string, ours bool) {
	if inc.angle {
		return "", "", false
	}
	near := inc.candidates(nil)
	candidates := inc.candidates(g.settings.includes)
	if file := g.onlyHeader(g.Config.RepoRoot, inc); file != "" {
		candidates = append(candidates, file)
	}
	for _, file := range candidates {
		name, inside := pathIn(g.Rel, file)
		if !inside {
			if isFile(g.Config.RepoRoot, file) {
				return "", "", false
			}
			continue
		}
		if !slices.Contains(g.GenFiles, name) {
			if !isFile(g.Config.RepoRoot, file) {
				continue
			}
			if pkg, ok := g.packageOf(g.Config, file); ok && len(pkg) > len(g.Rel) {
				return "", "", false
			}
		}
		for _, lib := range g.libraries[g.Rel] {
			if lib.provides(g.Config, file) {
				return "", "", false
			}
		}
		if !slices.Contains(near, file) {
			if folder = strings.TrimSuffix(strings.TrimSuffix(name, inc.path), "/"); folder == "" {
				folder = "."
			}
		}
		return name, folder, true
	}
	return "", "", false
}

// candidates returns the paths at which a compiler searches for an include in quotes: in the
// folder of the file that includes it, then from the root of the repository, then in folders.
func (inc include) candidates(folders []string) []string {
	var files []string
	places := []string{path.Dir(inc.file), ""}
	for _, folder := range append(places, folders...) {
		file := path.Join(folder, inc.path)
		if !strings.HasPrefix(file, "../") && !path.IsAbs(file) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// onlyHeader returns the header of the repository whose path ends with that of an
// include in quotes, "" unless there is exactly one.
func (l *offload) onlyHeader(root string, inc include) string {
	if inc.angle || strings.HasPrefix(inc.path, "../") {
		return ""
	}
	if l.headerFiles == nil {
		l.headerFiles = headersBelow(root)
	}
	found := ""
	for _, file := range l.headerFiles[path.Base(inc.path)] {
		if !strings.HasSuffix("/"+file, "/"+inc.path) {
			continue
		}
		if found != "" {
			return ""
		}
		found = file
	}
	return found
}

// headersBelow returns the headers of a repository by base name. It skips hidden folders and
// links, such as Bazel's outputs.
func headersBelow(root string) map[string][]string {
	found := make(map[string][]string)
	// Unreadable folders are skipped.
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		switch filepath.Ext(name) {
		case ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tcc":
			if rel, err := filepath.Rel(root, name); err == nil {
				found[d.Name()] = append(found[d.Name()], filepath.ToSlash(rel))
			}
		}
		return nil
	})
	return found
}

// isFile reports whether a path in the repository is a file.
func isFile(root, file string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
	return err == nil && info.Mode().IsRegular()
}
