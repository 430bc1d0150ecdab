package offload

import (
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/label"
	"github.com/bazelbuild/bazel-gazelle/language"
	"github.com/bazelbuild/bazel-gazelle/rule"
)

// generator generates the rules of one package.
type generator struct {
	*offload
	language.GenerateArgs
	settings *settings
	taken    map[string]bool // names of targets
	groups   []*group
	result   language.GenerateResult
}

// group is a rule to write, with its sources.
type group struct {
	kind     string
	name     string
	testonly bool
	srcs     []string
	// old is the rule in the BUILD file, or nil.
	old *rule.Rule
	// fixed is true if srcs of old is not a plain list. The rule then gets no further sources.
	fixed bool
	// leaf is true for linked programs and tests. No rule depends on them, so they can depend
	// on the libraries of the package.
	leaf bool
	// The results for the includes: headers, libraries of the package that have the headers,
	// and unresolved includes.
	hdrs, local []string
	// includes are the folders of the package from which the headers are included.
	includes  []string
	elsewhere []include
}

// perFile reports whether the rule is for a single source and named after it.
func (gr *group) perFile(suffix string) bool {
	srcs := gr.srcs
	if gr.old != nil {
		srcs = patternsOf(gr.old.Attr(srcsAttr)).names
	}
	return len(srcs) == 1 && strings.TrimSuffix(gr.name, suffix) == stemOf(srcs[0])
}

// GenerateRules generates the rules of one package. Gazelle calls it for subfolders first.
func (l *offload) GenerateRules(args language.GenerateArgs) language.GenerateResult {
	g := &generator{
		offload:      l,
		GenerateArgs: args,
		settings:     settingsOf(args.Config),
		taken:        make(map[string]bool),
	}
	l.noteLibraries(args.Config, args.Rel, args.OtherGen)
	if !g.settings.enabled {
		return language.GenerateResult{}
	}
	for _, r := range slices.Concat(g.existing(), args.OtherGen) {
		g.taken[r.Name()] = true
	}
	g.keep()
	g.place(g.newSources())
	removed := g.removeEmpty()
	if len(g.groups) > 0 || len(args.OtherGen) > 0 {
		l.packages[args.Rel] = true
	}
	// Libraries come first, because programs and tests search for their headers.
	for _, leaf := range []bool{false, true} {
		for _, gr := range g.groups {
			if gr.leaf == leaf {
				g.headers(gr)
			}
		}
	}
	for _, gr := range g.groups {
		g.write(gr)
	}
	g.writeBundles(removed)
	return g.result
}

// existing returns the rules in the BUILD file.
func (g *generator) existing() []*rule.Rule {
	if g.File == nil {
		return nil
	}
	return g.File.Rules
}

// keep creates groups from the existing rules with those of their sources that still exist.
func (g *generator) keep() {
	for _, r := range g.existing() {
		kind := kindOf(g.Config, r)
		if !isCompiled(kind) {
			continue
		}
		gr := &group{kind: kind, name: r.Name(), testonly: isTrue(r, testonlyAttr), old: r}
		if listed, plain := literals(r.Attr(srcsAttr)); plain {
			for _, src := range listed {
				if g.isThere(src) {
					gr.srcs = append(gr.srcs, src)
				}
			}
		} else if r.Attr(srcsAttr) != nil {
			gr.fixed = true
			named := patternsOf(r.Attr(srcsAttr))
			for _, file := range g.RegularFiles {
				if named.match(file) {
					gr.srcs = append(gr.srcs, file)
				}
			}
		}
		g.groups = append(g.groups, gr)
	}
}

// removeEmpty removes the rules without sources, and returns their names.
func (g *generator) removeEmpty() (removed []string) {
	g.groups = slices.DeleteFunc(g.groups, func(gr *group) bool {
		if len(gr.srcs) > 0 || gr.fixed {
			return false
		}
		g.result.Empty = append(g.result.Empty, rule.NewRule(gr.kind, gr.name))
		if !gr.old.ShouldKeep() {
			removed = append(removed, gr.name)
		}
		return true
	})
	return removed
}

// isThere reports whether a source of a rule exists: as a file or as the output of a
// rule. It assumes that labels exist.
func (g *generator) isThere(src string) bool {
	if strings.HasPrefix(src, ":") || strings.HasPrefix(src, "//") || strings.HasPrefix(src, "@") {
		return true
	}
	if slices.Contains(g.GenFiles, src) {
		return true
	}
	info, err := os.Stat(filepath.Join(g.Dir, filepath.FromSlash(src)))
	return err == nil && info.Mode().IsRegular()
}

// newSources returns the sources with device code that no rule lists yet.
func (g *generator) newSources() []string {
	var listed patterns
	for _, r := range slices.Concat(g.existing(), g.OtherGen) {
		if e := r.Attr(srcsAttr); e != nil && r.Kind() != "filegroup" {
			listed.add(e)
		}
	}
	var sources []string
	for _, file := range g.RegularFiles {
		if g.kindFor(file) == "" || listed.match(file) {
			continue
		}
		// A rule of the parent package lists it, and this folder is not a package yet.
		if g.File == nil && slices.ContainsFunc(g.settings.listed, func(p patterns) bool { return p.match(path.Join(g.Rel, file)) }) {
			continue
		}
		sources = append(sources, file)
	}
	slices.Sort(sources)
	return sources
}

// kindFor returns the kind of rule for a single source, or "" if it has no device code. A
// source of hipKind can also be in a libraryKind: see hipKindIn.
func (g *generator) kindFor(file string) string {
	switch path.Ext(file) {
	case ".hip":
		return hipKind
	case ".cu":
		if s := g.scan(file); s != nil && !s.isCUDA() {
			return hipKind
		}
	case ".cc", ".cpp", ".cxx":
		if s := g.scan(file); s != nil && (s.kernel || s.chevrons || g.deviceOnly(file)) {
			return hipKind
		} else if s != nil && s.target {
			return openmpKind
		}
	case ".c", ".C", ".c++":
		if s := g.scan(file); s != nil && s.target {
			return openmpKind
		}
	}
	return ""
}

func (g *generator) scan(file string) *scan {
	return g.scanFile(g.Config.RepoRoot, path.Join(g.Rel, file))
}

// deviceOnly reports whether a C++ source has __device__ functions and no syntax that requires
// HIP's compiler. It returns false for a source that C++ compilers can also read, alone or with
// the headers of the repository that it includes, because the source may be for them.
func (g *generator) deviceOnly(file string) bool {
	switch path.Ext(file) {
	case ".cc", ".cpp", ".cxx":
	default:
		return false
	}
	s := g.scan(file)
	if s == nil || !s.device || s.kernel || s.chevrons || s.target {
		return false
	}
	seen := make(map[string]bool)
	queue := []string{path.Join(g.Rel, file)}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		s := g.scanFile(g.Config.RepoRoot, name)
		if seen[name] || s == nil {
			continue
		}
		seen[name] = true
		if s.portable || s.isCUDA() {
			return false
		}
		for _, inc := range s.includes {
			queue = append(queue, inc.candidates(g.settings.includes)...)
		}
	}
	return true
}

// isCUDA reports whether a source is for nvcc, not for HIP: it includes CUDA's own headers or
// calls its functions.
func (s *scan) isCUDA() bool {
	cuda := s.cudaAPI && !s.hipAPI
	for _, inc := range s.includes {
		if strings.HasPrefix(inc.path, "hip/") {
			return false
		}
		cuda = cuda || strings.HasPrefix(path.Base(inc.path), "cuda")
	}
	return cuda
}

// place assigns the new sources to rules, to existing ones if possible.
func (g *generator) place(sources []string) {
	base, packaged := path.Base(g.Rel), g.settings.mode == packageMode
	kindIn := make(map[string]string)
	for _, file := range sources {
		kindIn[file] = g.kindFor(file)
		if kindIn[file] == hipKind {
			kindIn[file] = g.hipKindIn(file, sources)
		}
	}
	for _, kind := range []string{hipKind, libraryKind, programKind, openmpKind} {
		name, suffix := base, "_hip"
		if g.Rel == "" {
			name = "kernels"
		}
		if kind == openmpKind {
			suffix = "_omp"
			if g.Rel == "" {
				name = "openmp"
			}
		}
		for _, file := range sources {
			if kindIn[file] != kind {
				continue
			}
			stem, test := stemOf(file), isTest(file)
			want := name
			switch {
			case !packaged, isLinked(kind) && g.isProgram(file):
				want = stem
			case test:
				want = name + "_test"
			}
			gr := g.groupFor(kind, want, suffix, test, want != stem)
			if gr == nil {
				gr = &group{kind: kind, name: g.free(want, suffix), testonly: test}
				g.groups = append(g.groups, gr)
			}
			gr.srcs = append(gr.srcs, file)
		}
	}
	for _, gr := range g.groups {
		gr.leaf = isLinked(gr.kind) && (gr.testonly || slices.ContainsFunc(gr.srcs, g.isProgram))
	}
}

// hipKindIn returns the kind of rule for a new HIP source in its package. Kernels and the code
// that launches them must be in one library. Kernels that no source of the package launches are
// code objects. Device functions are for the device code of others: in a package without
// kernels, they are a library.
func (g *generator) hipKindIn(file string, sources []string) string {
	launches := func(src string) bool {
		s := g.scan(src)
		return s != nil && s.launch
	}
	program := g.isProgram(file)
	alone := g.settings.mode == fileMode || program
	switch {
	case launches(file) || alone && g.deviceOnly(file):
		return libraryKind
	case program && !isTest(file):
		// It launches only kernels that it loads, so it does not need code objects.
		return programKind
	case alone:
		return hipKind
	}
	for _, gr := range g.groups {
		if gr.kind == libraryKind && gr.testonly == isTest(file) && !slices.ContainsFunc(gr.srcs, g.isProgram) {
			return libraryKind
		}
	}
	for _, src := range sources {
		if g.kindFor(src) == hipKind && launches(src) && isTest(src) == isTest(file) && !g.isProgram(src) {
			return libraryKind
		}
	}
	for _, gr := range g.groups {
		if gr.kind == hipKind && gr.testonly == isTest(file) {
			return hipKind
		}
	}
	for _, src := range sources {
		if g.kindFor(src) == hipKind && isTest(src) == isTest(file) && !g.deviceOnly(src) {
			return hipKind
		}
	}
	return libraryKind
}

// isProgram reports whether a source has a main function.
func (g *generator) isProgram(src string) bool {
	s := g.scan(src)
	return s != nil && s.main
}

// groupFor returns the rule for a new source: the one with the given name or, if shared, the
// only one of its kind. Rules that are named after their only file get no further sources.
func (g *generator) groupFor(kind, want, suffix string, testonly, shared bool) *group {
	var only *group
	fitting := 0
	for _, gr := range g.groups {
		if gr.kind != kind || gr.testonly != testonly || gr.fixed || gr.old != nil && gr.old.ShouldKeep() {
			continue
		}
		if shared && (gr.name == want || gr.name == want+suffix) {
			return gr
		}
		if !gr.perFile(suffix) {
			only = gr
			fitting++
		}
	}
	if shared && fitting == 1 {
		return only
	}
	return nil
}

// free returns an unused name for a new target.
func (g *generator) free(name, suffix string) string {
	candidate := name
	for i := 1; g.taken[candidate]; i++ {
		candidate = name + suffix
		if i > 1 {
			candidate = fmt.Sprintf("%s%s_%d", name, suffix, i)
		}
	}
	g.taken[candidate] = true
	return candidate
}

// write adds the rule of a group to the result.
func (g *generator) write(gr *group) {
	r := rule.NewRule(gr.kind, gr.name)
	setManaged(r, gr.old, srcsAttr, gr.srcs)
	setManaged(r, gr.old, hdrsAttr, gr.hdrs)
	if len(gr.includes) > 0 && (gr.old == nil || gr.old.Attr(includesAttr) == nil) {
		r.SetAttr(includesAttr, gr.includes)
	}
	g.setArchs(r, gr.old)
	g.setDefaults(r, gr)
	imports := imports{includes: gr.elsewhere, local: gr.local}
	if gr.old != nil {
		imports.deps = gr.old.Attr(depsAttr)
	}
	g.add(r, imports)
	for _, inc := range gr.elsewhere {
		for _, file := range inc.candidates(g.settings.includes) {
			g.result.RelsToIndex = append(g.result.RelsToIndex, path.Dir(file))
			if pkg, ok := g.packageOf(g.Config, file); ok && isFile(g.Config.RepoRoot, file) {
				g.result.RelsToIndex = append(g.result.RelsToIndex, pkg)
			}
		}
	}
}

// setArchs sets the architectures: those of the directive or, without a directive, those of the
// existing rule.
func (g *generator) setArchs(r, old *rule.Rule) {
	if g.settings.archs != nil {
		setManaged(r, old, archsAttr, g.settings.archs)
	} else if old != nil && old.Attr(archsAttr) != nil {
		r.SetAttr(archsAttr, unchanged{old.Attr(archsAttr)})
	}
}

// setDefaults sets the initial attributes of a new rule, which users can change.
func (g *generator) setDefaults(r *rule.Rule, gr *group) {
	if gr.old != nil {
		return
	}
	if gr.kind != openmpKind && slices.ContainsFunc(gr.srcs, g.deviceOnly) {
		r.SetAttr(rdcAttr, true) // kernels of other sources call its functions
	}
	if gr.testonly {
		r.SetAttr(testonlyAttr, true)
	} else if g.File == nil || !g.File.HasDefaultVisibility() {
		r.SetAttr(visibilityAttr, []string{rule.CheckInternalVisibility(g.Rel, "//visibility:public")})
	}
}

func (g *generator) add(r *rule.Rule, imports imports) {
	g.result.Gen = append(g.result.Gen, r)
	g.result.Imports = append(g.result.Imports, imports)
}

// writeBundles adds a bundle for each rule whose images are in no bundle, and removes the
// images of removed rules from their bundles.
func (g *generator) writeBundles(removed []string) {
	for _, r := range g.existing() {
		if kindOf(g.Config, r) != bundleKind {
			continue
		}
		images, plain := literals(r.Attr(imagesAttr))
		left := slices.DeleteFunc(slices.Clone(images), func(image string) bool {
			l, err := label.Parse(image)
			return err == nil && l.Abs("", g.Rel).Pkg == g.Rel && l.Repo == "" && slices.Contains(removed, l.Name)
		})
		switch {
		case !plain || len(left) == len(images):
		case len(left) == 0:
			g.result.Empty = append(g.result.Empty, rule.NewRule(bundleKind, r.Name()))
		default:
			bundle := rule.NewRule(bundleKind, r.Name())
			bundle.SetAttr(imagesAttr, left)
			g.add(bundle, imports{})
		}
	}
	if !g.settings.bundle {
		return
	}
	for _, gr := range g.groups {
		name := gr.name + "_fat"
		if gr.kind != hipKind || g.bundled[label.New("", g.Rel, gr.name).String()] {
			continue
		}
		if g.taken[name] {
			log.Printf("//%s:%s: no bundle is generated, because the target %s exists; add :%s to a bundle, or write # gazelle:%s false", g.Rel, gr.name, name, gr.name, bundleDirective)
			continue
		}
		bundle := rule.NewRule(bundleKind, name)
		bundle.SetAttr(imagesAttr, []string{":" + gr.name})
		g.setDefaults(bundle, &group{testonly: gr.testonly})
		g.add(bundle, imports{})
	}
}

// stemOf returns the name of a file without folder and extension.
func stemOf(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// isTest reports whether a source has the name of a test.
func isTest(file string) bool {
	stem := stemOf(file)
	return strings.HasSuffix(stem, "_test") || strings.HasPrefix(stem, "test_")
}

func isTrue(r *rule.Rule, attr string) bool {
	value := r.Attr(attr)
	return value != nil && (isIdent(value, "True") || r.AttrString(attr) == "1")
}
