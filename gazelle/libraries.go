package offload

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/label"
	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/bazelbuild/buildtools/build"
)

// library is a rule with headers that the extension does not generate: cc_library or similar.
// Gazelle's index contains only libraries from extensions for C++, not those that users write.
type library struct {
	label label.Label
	pkg   string
	hdrs  patterns
	// shared is true for a library that writeHeaders wrote.
	shared bool
	// roots are further directories from which headers can be included, each with the prefix of the
	// include.
	roots []root
}

type root struct{ folder, prefix string }

// isLibrary reports whether rules of a kind provide headers to their dependents.
func isLibrary(kind string) bool {
	return strings.HasSuffix(kind, "_library") && !isLinked(kind)
}

// noteLibraries records the libraries of a package.
func (l *offload) noteLibraries(c *config.Config, rel string, rules []*rule.Rule) {
	for _, r := range rules {
		if r.Attr(hdrsAttr) == nil && r.Attr(textualAttr) == nil || !isLibrary(kindOf(c, r)) {
			continue
		}
		lib := &library{label: label.New(c.RepoName, rel, r.Name()), pkg: rel, shared: isShared(r)}
		lib.hdrs.add(r.Attr(hdrsAttr))
		lib.hdrs.add(r.Attr(textualAttr))
		for _, folder := range r.AttrStrings("includes") {
			lib.roots = append(lib.roots, root{folder: path.Join(rel, folder)})
		}
		strip, prefix := r.AttrString("strip_include_prefix"), r.AttrString("include_prefix")
		switch {
		case strings.HasPrefix(strip, "/"):
			lib.roots = append(lib.roots, root{path.Clean(strip[1:]), prefix})
		case strip != "" || prefix != "":
			lib.roots = append(lib.roots, root{path.Join(rel, strip), prefix})
		}
		same := func(other *library) bool { return other.label == lib.label }
		l.libraries[rel] = append(slices.DeleteFunc(l.libraries[rel], same), lib)
	}
}

// provides reports whether the library has a header, by its path in the repository. Literal
// names can be generated files.
func (lib *library) provides(c *config.Config, header string) bool {
	name, ok := pathIn(lib.pkg, header)
	if !ok {
		return false
	}
	return slices.Contains(lib.hdrs.names, name) || lib.hdrs.match(name) && isFile(c.RepoRoot, header)
}

// providesAs reports whether the library has a header that is included by this
// path.
func (lib *library) providesAs(c *config.Config, included string) bool {
	return slices.ContainsFunc(lib.roots, func(r root) bool {
		name, ok := pathIn(r.prefix, included)
		return ok && lib.provides(c, path.Join(r.folder, name))
	})
}

// noteBundles records the images that are in bundles.
func (l *offload) noteBundles(c *config.Config, rel string, rules []*rule.Rule) {
	for _, r := range rules {
		if kindOf(c, r) != bundleKind {
			continue
		}
		for _, image := range patternsOf(r.Attr(imagesAttr)).names {
			if image, err := label.Parse(image); err == nil {
				l.bundled[image.Abs("", rel).String()] = true
			}
		}
	}
}

// listedSources returns the sources of all rules of a package.
func listedSources(rel string, rules []*rule.Rule) []patterns {
	var listed []patterns
	for _, r := range rules {
		if e := r.Attr(srcsAttr); e != nil && r.Kind() != "filegroup" {
			listed = append(listed, patternsOf(e).under(rel))
		}
	}
	return listed
}

// packageOf returns the package of a file, by its path in the repository. ok is false if the
// file is in no package.
func (l *offload) packageOf(c *config.Config, file string) (rel string, ok bool) {
	for rel = dirOf(file); ; rel = dirOf(rel) {
		if l.isPackage(c, rel) {
			return rel, true
		}
		if rel == "" {
			return "", false
		}
	}
}

func (l *offload) isPackage(c *config.Config, rel string) bool {
	is, ok := l.packages[rel]
	if !ok {
		dir := filepath.Join(c.RepoRoot, filepath.FromSlash(rel))
		entries, err := os.ReadDir(dir)
		is = err == nil && rule.MatchBuildFile(dir, c.ValidBuildFileNames, entries) != ""
		l.packages[rel] = is
	}
	return is
}

func isIdent(e build.Expr, name string) bool {
	ident, ok := e.(*build.Ident)
	return ok && ident.Name == name
}
