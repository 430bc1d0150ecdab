package offload

import (
	"log"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/label"
	"github.com/bazelbuild/bazel-gazelle/repo"
	"github.com/bazelbuild/bazel-gazelle/resolve"
	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/bazelbuild/buildtools/build"
)

// imports is the information that GenerateRules passes to Resolve for one rule.
type imports struct {
	includes []include
	// local are the required libraries of the same package.
	local []string
	// deps is the attribute of the rule in the BUILD file, or nil.
	deps build.Expr
}

// ccLanguage is the name under which the extension for C++ indexes headers.
const ccLanguage = "cc"

// Imports returns the paths in includes of the headers of a library from the extension.
func (*offload) Imports(c *config.Config, r *rule.Rule, f *rule.File) []resolve.ImportSpec {
	if kind := kindOf(c, r); !isLinked(kind) || kind == programKind {
		return nil
	}
	specs := []resolve.ImportSpec{}
	for _, header := range r.AttrStrings(hdrsAttr) {
		specs = append(specs, resolve.ImportSpec{Lang: languageName, Imp: path.Join(f.Pkg, header)})
	}
	return specs
}

// CrossResolve finds the extension's libraries for includes in C++ sources.
func (*offload) CrossResolve(c *config.Config, ix *resolve.RuleIndex, imp resolve.ImportSpec, lang string) []resolve.FindResult {
	if lang != ccLanguage || imp.Lang != ccLanguage {
		return nil
	}
	return ix.FindRulesByImport(resolve.ImportSpec{Lang: languageName, Imp: imp.Imp}, languageName)
}

// Resolve sets deps to the libraries whose headers the sources include.
func (l *offload) Resolve(c *config.Config, ix *resolve.RuleIndex, _ *repo.RemoteCache, r *rule.Rule, imported any, from label.Label) {
	found := imported.(imports)
	if found.deps != nil {
		if _, ok := literals(found.deps); !ok {
			r.SetAttr(depsAttr, unchanged{found.deps})
			return
		}
	}
	deps := slices.Clone(found.local)
	add := func(dep string) {
		if !slices.Contains(deps, dep) {
			deps = append(deps, dep)
		}
	}
	for _, inc := range found.includes {
		if dep, ok := l.resolve(c, ix, inc, from); ok {
			add(dep.Rel(from.Repo, from.Pkg).String())
		}
	}
	// No index has the headers of other repositories, so existing values are kept.
	kept, _ := literals(found.deps)
	for _, dep := range kept {
		if strings.HasPrefix(dep, "@") {
			add(dep)
		}
	}
	slices.Sort(deps)
	r.DelAttr(depsAttr)
	if len(deps) > 0 {
		r.SetAttr(depsAttr, deps)
	}
}

// resolve returns the library of an include. ok is false if there is no library or more than
// one, or if it is the rule itself.
func (l *offload) resolve(c *config.Config, ix *resolve.RuleIndex, inc include, from label.Label) (dep label.Label, ok bool) {
	files := []string{inc.path}
	if !inc.angle {
		files = inc.candidates(settingsOf(c).includes)
		if file := l.onlyHeader(c.RepoRoot, inc); file != "" && !slices.ContainsFunc(files, func(f string) bool { return isFile(c.RepoRoot, f) }) {
			files = append(files, file)
		}
	}
	for _, file := range append(files, inc.path) {
		for _, lang := range []string{languageName, ccLanguage} {
			if dep, ok := resolve.FindRuleWithOverride(c, resolve.ImportSpec{Lang: lang, Imp: file}, languageName); ok {
				return dep, !dep.Equal(from)
			}
		}
	}
	for i, file := range files {
		labels := l.find(c, ix, inc, file, file == inc.path || i == len(files)-1)
		if named := slices.IndexFunc(labels, func(l label.Label) bool { return l.Name == stemOf(file) }); named >= 0 {
			labels = labels[named : named+1]
		}
		switch {
		case slices.ContainsFunc(labels, from.Equal):
			return label.NoLabel, false
		case len(labels) == 1:
			return labels[0], true
		case len(labels) > 1:
			log.Printf("%s:%d: %s is in more than one library: %s; choose one with # gazelle:resolve %s %s LABEL", inc.file, inc.line, inc.path, join(labels, from.Repo), languageName, inc.path)
			return label.NoLabel, false
		case !inc.angle && isFile(c.RepoRoot, file):
			log.Printf("%s:%d: %s is not in hdrs of a library; add one, or # gazelle:resolve %s %s LABEL", inc.file, inc.line, file, languageName, inc.path)
			return label.NoLabel, false
		}
	}
	return label.NoLabel, false
}

// find returns the libraries that have a file, by its path in the repository, and with
// asWritten also the libraries that provide a header by the path of the include.
func (l *offload) find(c *config.Config, ix *resolve.RuleIndex, inc include, file string, asWritten bool) []label.Label {
	var labels []label.Label
	add := func(found label.Label) {
		if !slices.ContainsFunc(labels, found.Equal) {
			labels = append(labels, found)
		}
	}
	for _, lang := range []string{languageName, ccLanguage} {
		for _, result := range ix.FindRulesByImportWithConfig(c, resolve.ImportSpec{Lang: lang, Imp: file}, lang) {
			add(result.Label)
		}
	}
	if pkg, ok := l.packageOf(c, file); ok && !inc.angle {
		for _, lib := range l.libraries[pkg] {
			if lib.provides(c, file) {
				add(lib.label)
			}
		}
	}
	if asWritten && len(labels) == 0 {
		for _, pkg := range slices.Sorted(maps.Keys(l.libraries)) {
			for _, lib := range l.libraries[pkg] {
				if lib.providesAs(c, inc.path) {
					add(lib.label)
				}
			}
		}
	}
	return labels
}

// join lists labels for a message, relative to the repository repo.
func join(labels []label.Label, repo string) string {
	var names []string
	for _, l := range labels {
		if l.Repo == repo {
			l.Repo = ""
		}
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}
