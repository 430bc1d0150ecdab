package offload

import (
	"fmt"
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
	wanted []wanted
	// local are the required libraries of the same package.
	local []string
	// libs are libraries of ROCm, links the names of units of other tools.
	libs, links []string
	// deps is the attribute of the rule in the BUILD file, or nil.
	deps build.Expr
	// unread is true if not all sources of the rule could be read.
	unread bool
	folder string
}

// ccLanguage is the name under which the extension for C++ indexes headers.
const ccLanguage = "cc"

// Imports returns the paths in includes of the headers of a library from the extension.
func (l *offload) Imports(c *config.Config, r *rule.Rule, f *rule.File) []resolve.ImportSpec {
	if kind := kindOf(c, r); !isLinked(kind) || isProgramKind(kind) || l.hasMain(c, f.Pkg, r) {
		return nil
	}
	specs := []resolve.ImportSpec{}
	for _, header := range slices.Concat(r.AttrStrings(hdrsAttr), r.AttrStrings(textualAttr)) {
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

// hasMain reports whether a rule is a program: no rule depends on it.
func (l *offload) hasMain(c *config.Config, pkg string, r *rule.Rule) bool {
	return slices.ContainsFunc(r.AttrStrings(srcsAttr), func(src string) bool {
		s := l.scanFile(c.RepoRoot, path.Join(pkg, src))
		return s != nil && s.main
	})
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
	add := func(dep string) { deps = union(deps, []string{dep}) }
	for _, w := range found.wanted {
		if l.isIndexed(c, ix, w.include.file, from) {
			continue // a dependency has the includes of its headers
		}
		if dep, ok := l.resolve(c, ix, w, from); ok {
			add(dep.Rel(from.Repo, from.Pkg).String())
		}
	}
	for _, name := range found.links {
		if dirs := nearest(from.Pkg, slices.Sorted(maps.Keys(l.units[name]))); len(dirs) > 0 {
			if dep := l.units[name][dirs[0]]; !dep.Equal(from) {
				add(dep.Rel(from.Repo, from.Pkg).String())
			}
		} else {
			l.report.unresolved(found.folder, fmt.Sprintf("%s links %s, which is not in the repository", from.Name, name), "deps = [\"LABEL\"]")
		}
	}
	for _, name := range found.libs {
		if dep := l.rocmDep(c, from, "-l"+name, name); dep != "" {
			add(dep)
		}
	}
	// No index has the headers of other repositories, so existing values are kept. All are kept
	// if the includes of the rule are not known.
	kept, _ := literals(found.deps)
	for _, dep := range kept {
		if strings.HasPrefix(dep, "@") || found.unread {
			add(dep)
		}
	}
	slices.Sort(deps)
	r.DelAttr(depsAttr)
	if len(deps) > 0 {
		r.SetAttr(depsAttr, deps)
	}
}

// isIndexed reports whether a library of the extension in another package has a header.
func (l *offload) isIndexed(c *config.Config, ix *resolve.RuleIndex, file string, from label.Label) bool {
	pkg, ok := l.packageOf(c, file)
	return ok && pkg != from.Pkg && len(ix.FindRulesByImportWithConfig(c, resolve.ImportSpec{Lang: languageName, Imp: file}, languageName)) > 0
}

// rocmDep returns the target of a library of ROCm, "" if no directive names its repository.
func (l *offload) rocmDep(c *config.Config, from label.Label, what, library string) string {
	if rocm := settingsOf(c).rocm; rocm != "" {
		return rocm + "//:" + library
	}
	l.report.unresolved(from.Pkg, what+" is a part of ROCm", "# gazelle:"+rocmDirective+" @REPOSITORY")
	return ""
}

// resolve returns the library of an include. ok is false if there is no library or more than
// one, or if it is the rule itself.
func (l *offload) resolve(c *config.Config, ix *resolve.RuleIndex, w wanted, from label.Label) (dep label.Label, ok bool) {
	for _, file := range []string{w.found.file, w.path} {
		for _, lang := range []string{languageName, ccLanguage} {
			if dep, ok := resolve.FindRuleWithOverride(c, resolve.ImportSpec{Lang: lang, Imp: file}, languageName); ok && file != "" {
				return dep, !dep.Equal(from)
			}
		}
	}
	labels := l.find(c, ix, w)
	name := path.Base(w.path)
	if named := slices.IndexFunc(labels, func(l label.Label) bool { return l.Name == stemOf(name) }); named >= 0 {
		labels = labels[named : named+1]
	}
	switch {
	case slices.ContainsFunc(labels, from.Equal):
		return label.NoLabel, false
	case len(labels) == 1:
		return labels[0], true
	case len(labels) > 1:
		l.problem(from, w, fmt.Sprintf("%s is in more than one library: %s; choose one with", w.path, join(labels, from.Repo)), fmt.Sprintf("# gazelle:%s %s %s LABEL", resolveDirective, languageName, w.path))
		return label.NoLabel, false
	}
	if w.found.file != "" {
		if shared, ok := l.sharedHeaders[w.found.file]; ok {
			return shared, !shared.Equal(from)
		}
		l.problem(from, w, fmt.Sprintf("%s is not in hdrs or textual_hdrs of a library; run Gazelle in its directory, add one, or", w.found.file), fmt.Sprintf("# gazelle:%s %s %s LABEL", resolveDirective, languageName, w.path))
		return label.NoLabel, false
	}
	if strings.HasPrefix(w.path, "hip/") {
		return label.NoLabel, false // compilations of HIP get these headers
	}
	if library := rocmLibraryFor(w.path); library != "" {
		if dep, err := label.Parse(l.rocmDep(c, from, w.path, library)); err == nil && dep.Name != "" {
			return dep, true
		}
		return label.NoLabel, false
	}
	l.ambiguous(from, w)
	return label.NoLabel, false
}

// maxCandidates limits the length of a message.
const maxCandidates = 6

// ambiguous reports an include that no search path finds, with the files that can be meant.
func (l *offload) ambiguous(from label.Label, w wanted) {
	candidates := l.plan.candidates(w.include)
	switch {
	case w.angle:
	case len(candidates) > 1:
		more := ""
		if left := len(candidates) - maxCandidates; left > 0 {
			candidates, more = candidates[:maxCandidates], fmt.Sprintf(" or %d others", left)
		}
		dir := strings.TrimSuffix(strings.TrimSuffix(candidates[0], w.path), "/")
		l.problem(from, w, fmt.Sprintf("%s can be %s%s; choose one with", w.path, strings.Join(candidates, ", "), more),
			fmt.Sprintf("# gazelle:%s %s", includeDirective, relative(from.Pkg, dir)))
	default:
		why := "is not in the repository"
		if file := l.plan.generated(from.Pkg, w.include); file != "" {
			why = fmt.Sprintf("is generated by the other build, as %s; write a cc_library with a rule that generates it", file)
		}
		l.report.unresolved(from.Pkg, fmt.Sprintf("%s:%d: %s %s", w.include.file, w.line, w.path, why), fmt.Sprintf("# gazelle:%s %s %s LABEL", resolveDirective, languageName, w.path))
	}
}

// problem reports an include without a dependency, and the line that resolves it.
func (l *offload) problem(from label.Label, w wanted, text, line string) {
	log.Printf("%s:%d: %s %s", w.include.file, w.line, text, line)
	l.report.unresolved(from.Pkg, fmt.Sprintf("%s:%d: %s", w.include.file, w.line, text), line)
}

// find returns the libraries that have the file of an include, or those that provide an include
// that was not found as a file.
func (l *offload) find(c *config.Config, ix *resolve.RuleIndex, w wanted) []label.Label {
	var labels []label.Label
	add := func(found label.Label) {
		if !slices.ContainsFunc(labels, found.Equal) {
			labels = append(labels, found)
		}
	}
	files := []string{w.found.file}
	if w.found.file == "" {
		files = append([]string{w.path}, w.candidates(settingsOf(c).includes)...)
	}
	for _, file := range files {
		for _, lang := range []string{languageName, ccLanguage} {
			for _, result := range ix.FindRulesByImportWithConfig(c, resolve.ImportSpec{Lang: lang, Imp: file}, lang) {
				add(result.Label)
			}
		}
		if pkg, ok := l.packageOf(c, file); ok && (!w.angle || w.found.file != "") {
			for _, lib := range l.libraries[pkg] {
				if lib.provides(c, file) {
					add(lib.label)
				}
			}
		}
		if len(labels) > 0 {
			return labels
		}
	}
	if w.found.file == "" {
		for _, lib := range l.plan.providers(w.include) {
			add(lib.label)
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

// candidates returns the paths at which a compiler searches for an include in quotes: in the
// folder of the file that includes it, in directories, then from the root of the repository.
func (inc include) candidates(dirs []string) []string {
	if inc.angle {
		return nil
	}
	var files []string
	for _, dir := range slices.Concat([]string{path.Dir(inc.file)}, dirs, []string{""}) {
		if file, ok := inRepository(dir, inc.path); ok {
			files = union(files, []string{file})
		}
	}
	return files
}
