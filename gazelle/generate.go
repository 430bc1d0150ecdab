package offload

import (
	"fmt"
	"iter"
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
	folder *folder
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
	// flags are those of the unit that the rule is for, or of the directory.
	flags flags
	links []string // names of the units that it links
	// parts are the sources, by path in the repository, that are compiled with other flags.
	parts []*unit
	// whole is true for a library of such sources and a library with parts: a program links all its
	// objects, as the other build tool does, because they can refer to each other.
	whole bool
	// The results for the includes: headers and other files of the package, libraries of the
	// package that have the headers, and what dependencies must provide.
	hdrs, textual, local []string
	// includes are the directories of the package from which the headers are included.
	includes  []string
	elsewhere []wanted
}

// perFile reports whether the rule is for a single source and named after it.
func (gr *group) perFile(suffix string) bool {
	srcs := gr.srcs
	if gr.old != nil {
		srcs = patternsOf(gr.old.Attr(srcsAttr)).names
	}
	return len(srcs) == 1 && strings.TrimSuffix(gr.name, suffix) == stemOf(srcs[0])
}

// GenerateRules generates the rules of one package. Gazelle calls it for subdirectories first.
func (l *offload) GenerateRules(args language.GenerateArgs) language.GenerateResult {
	if l.plan == nil {
		l.plan = l.newPlan(args.Config)
	}
	g := &generator{
		offload:      l,
		folder:       l.plan.folders[args.Rel],
		GenerateArgs: args,
		settings:     settingsOf(args.Config),
		taken:        make(map[string]bool),
	}
	if g.folder == nil {
		g.folder = &folder{rel: args.Rel, files: args.RegularFiles, settings: g.settings, build: args.File}
	}
	l.noteLibraries(args.Config, args.Rel, args.OtherGen)
	if !g.settings.enabled {
		return language.GenerateResult{}
	}
	for _, r := range slices.Concat(g.existing(), args.OtherGen) {
		g.take(kindOf(args.Config, r), r.Name())
	}
	g.keep()
	g.placeUnits()
	g.joinParts()
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
	g.writeShared()
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
		gr := &group{kind: kind, name: r.Name(), testonly: kind == testKind || isTrue(r, testonlyAttr), old: r}
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
		g.describe(gr)
		g.groups = append(g.groups, gr)
	}
}

// describe sets the flags of a group from the unit that has its sources.
func (g *generator) describe(gr *group) {
	gr.flags = g.folderFlags(gr.kind)
	if gr.kind == openmpKind {
		return
	}
	described := false
	for _, u := range g.folder.units() {
		if len(u.srcs) > 0 && (!described || u.program == gr.name) && slices.ContainsFunc(gr.srcs, func(src string) bool { return g.isMain(u, g.fileOf(src)) }) {
			gr.flags, gr.links, described = u.flags, u.links, true
			_, gr.parts = u.split(slices.Concat(g.mainsOf(u), []string{""})[0])
		}
	}
}

// folderFlags returns the flags of a rule of a kind for sources of no unit. OpenMP gets only the
// directories of includes, because the other flags are those of the compiler of the Makefile.
func (g *generator) folderFlags(kind string) flags {
	switch {
	case g.folder.hints == nil:
		return flags{}
	case kind == openmpKind:
		return flags{includes: g.plan.searched(g.folder, nil)}
	}
	return g.folder.hints.flags
}

// isMain reports whether a source is the one that names the rule of a unit.
func (g *generator) isMain(u unit, src string) bool {
	if mains := g.mainsOf(u); len(mains) > 0 {
		return slices.Contains(mains, src)
	}
	return src == u.srcs[0]
}

// mainsOf returns the sources of a unit that have a main function. If one has it in all cases, those
// that have it under a condition of the preprocessor, such as a test of the source, do not count.
func (g *generator) mainsOf(u unit) []string {
	var mains, certain []string
	for _, src := range u.srcs {
		s := g.scanFile(g.Config.RepoRoot, src)
		if s == nil || !s.main || g.plan.included[src] {
			continue
		}
		mains = append(mains, src)
		if s.certain {
			certain = append(certain, src)
		}
	}
	if len(certain) > 0 {
		return certain
	}
	return mains
}

// fileOf returns the path in the repository of a source of a rule: a file of the package or a
// target for sources of another package.
func (g *generator) fileOf(src string) string {
	if file, ok := g.plan.sourceOf(src); ok {
		return file
	}
	return path.Join(g.Rel, src)
}

// sourceLabel returns the name that a rule of the package has for a source.
func (g *generator) sourceLabel(src string) string {
	if owner := g.plan.ownerOf(src); owner != g.Rel {
		return label.New("", owner, sourceTarget(owner, src)).String()
	}
	return g.name(src)
}

// placeUnits makes rules for the units that other build files describe.
func (g *generator) placeUnits() {
	if g.File == nil && g.settings.updateOnly {
		return
	}
	units := g.plan.unitsOf(g.folder)
	for i, u := range units {
		srcs := slices.DeleteFunc(slices.Clone(u.srcs), func(src string) bool { return g.plan.included[src] })
		mains := g.mainsOf(u)
		if len(mains) == 0 {
			g.placeUnit(u, "", srcs)
		}
		for _, main := range mains {
			own := slices.DeleteFunc(slices.Clone(srcs), func(src string) bool { return src != main && slices.Contains(mains, src) })
			if g.isVariant(units, i, main) {
				u.name = u.program
			}
			g.placeUnit(u, main, own)
		}
	}
}

// isVariant reports whether another unit has the same main source, and other sources or flags.
func (g *generator) isVariant(units []unit, i int, main string) bool {
	u := units[i]
	different := false
	for j, other := range units {
		if j == i || other.program == "" || u.program == "" || !slices.Contains(g.mainsOf(other), main) {
			continue
		}
		if slices.Equal(u.srcs, other.srcs) && slices.Equal(u.flags.copts, other.flags.copts) {
			if j < i {
				return false // the same program with another name
			}
			continue
		}
		different = true
	}
	return different
}

// placeUnit makes the rule for a unit, unless a rule has its main source.
func (g *generator) placeUnit(u unit, main string, srcs []string) {
	var names []string
	for _, src := range srcs {
		names = append(names, g.sourceLabel(src))
	}
	if len(names) == 0 {
		return
	}
	first, key := srcs[0], names[0]
	if main != "" {
		first, key = main, g.sourceLabel(main)
	}
	if g.isListed(key) || slices.ContainsFunc(g.groups, func(gr *group) bool {
		return slices.Contains(gr.srcs, key) && (main != "" && u.name == "" || gr.name == u.name)
	}) {
		return
	}
	want := u.name
	if want == "" {
		want = stemOf(first)
	}
	gr := &group{kind: libraryKind, links: u.links, srcs: names}
	gr.flags, gr.parts = u.split(main)
	g.placeParts(gr)
	gr.whole = main == "" && len(gr.parts) > 0
	if main != "" {
		gr.kind, gr.leaf = programKind, true
		if g.settings.isTest(main) {
			gr.kind, gr.testonly = testKind, true
		}
	}
	gr.name = g.free(gr.kind, want, "_hip")
	g.groups = append(g.groups, gr)
	g.note(gr, "flags and sources from %s", g.folder.hints.file)
	if u.flags.rdc && u.differ() {
		g.note(gr, "all sources get the flags of each, because their device code is linked together")
	}
	for _, part := range g.folder.hints.unread {
		g.note(gr, "without %s, which only runs in a shell", part)
	}
}

// placeParts makes libraries of the sources of a new program or library that have other flags.
func (g *generator) placeParts(whole *group) {
	for _, part := range whole.parts {
		var names []string
		for _, src := range part.srcs {
			names = append(names, g.sourceLabel(src))
		}
		left := func(name string) bool { return slices.Contains(names, name) }
		whole.srcs = slices.DeleteFunc(whole.srcs, left)
		if slices.ContainsFunc(g.groups, func(gr *group) bool {
			return gr.kind == libraryKind && sameSet(gr.srcs, names) && sameSet(gr.flags.copts, part.flags.copts)
		}) || slices.ContainsFunc(names, g.isListed) {
			continue
		}
		gr := &group{kind: libraryKind, name: g.free(libraryKind, stemOf(part.srcs[0]), "_hip"), flags: part.flags, srcs: names, whole: true}
		g.groups = append(g.groups, gr)
		g.note(gr, "flags that %s gives to these sources only", g.folder.hints.file)
	}
}

// joinParts adds the libraries that placeParts made to the dependencies of the rules that they are parts of.
func (g *generator) joinParts() {
	for _, whole := range g.groups {
		for _, part := range whole.parts {
			for _, src := range part.srcs {
				name := g.sourceLabel(src)
				if slices.Contains(whole.srcs, name) {
					continue
				}
				at := slices.IndexFunc(g.groups, func(gr *group) bool {
					return gr.kind == libraryKind && slices.Contains(gr.srcs, name) && (gr.old != nil || sameSet(gr.flags.copts, part.flags.copts))
				})
				if at >= 0 {
					whole.local = union(whole.local, []string{":" + g.groups[at].name})
				}
			}
		}
	}
}

// isListed reports whether an existing rule, or one of another extension, lists a source.
func (g *generator) isListed(src string) bool {
	return slices.ContainsFunc(slices.Concat(g.existing(), g.OtherGen), func(r *rule.Rule) bool {
		e := r.Attr(srcsAttr)
		return e != nil && r.Kind() != sourcesKind && patternsOf(e).match(src)
	})
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
	var sources []string
	for _, file := range g.RegularFiles {
		src := path.Join(g.Rel, file)
		if g.kindFor(file) == "" || g.isListed(file) || g.plan.claimed[src] || slices.ContainsFunc(g.groups, func(gr *group) bool { return slices.Contains(gr.srcs, file) }) {
			continue
		}
		if g.isLeftOut(src) {
			g.skip(file, "%s does not build it", g.folder.hints.file)
			continue
		}
		// A rule of the parent package lists it, and this directory is not a package yet.
		if g.plan.isListedAbove(g.folder, src) {
			continue
		}
		sources = append(sources, file)
	}
	slices.Sort(sources)
	return sources
}

// isLeftOut reports whether another build file lists the sources of the directory without this one.
func (g *generator) isLeftOut(src string) bool {
	units := g.plan.unitsOf(g.folder)
	complete := g.folder.hints != nil && g.folder.hints.complete
	return (complete || len(units) > 0) && !slices.ContainsFunc(units, func(u unit) bool { return slices.Contains(u.srcs, src) })
}

func (g *generator) kindFor(file string) string { return g.plan.kindFor(g.folder, file) }

func (g *generator) deviceOnly(file string) bool {
	return g.plan.deviceOnly(g.folder, path.Join(g.Rel, file))
}

func (g *generator) scan(file string) *scan {
	return g.scanFile(g.Config.RepoRoot, g.fileOf(file))
}

// launches reports whether a source or a header that it includes launches kernels.
func (g *generator) launches(file string) bool {
	return g.plan.deep(g.folder, path.Join(g.Rel, file)).launch
}

// place assigns the new sources to rules, to existing ones if possible.
func (g *generator) place(sources []string) {
	base, packaged := path.Base(g.Rel), g.settings.mode == packageMode
	sources = g.placeAlone(sources)
	kindIn := make(map[string]string)
	for _, file := range sources {
		kindIn[file] = g.kindFor(file)
		if kindIn[file] == hipKind {
			kindIn[file] = g.hipKindIn(file, sources)
		}
	}
	for _, kind := range []string{hipKind, libraryKind, programKind, testKind, openmpKind} {
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
			stem, test := stemOf(file), g.settings.isTest(file)
			want := name
			switch {
			case !packaged, isLinked(kind) && g.isProgram(file):
				want = stem
			case test:
				want = name + "_test"
			}
			gr := g.groupFor(kind, want, suffix, test, want != stem)
			if gr == nil {
				gr = g.newGroup(kind, g.free(kind, want, suffix), test)
			}
			gr.srcs = append(gr.srcs, file)
		}
	}
	for _, gr := range g.groups {
		gr.leaf = isLinked(gr.kind) && (gr.testonly || slices.ContainsFunc(gr.srcs, g.isProgram))
	}
}

// newGroup adds a rule for sources of no unit. They get the flags of the directory.
func (g *generator) newGroup(kind, name string, test bool) *group {
	gr := &group{kind: kind, name: name, testonly: test, flags: g.folderFlags(kind)}
	g.groups = append(g.groups, gr)
	return gr
}

// placeAlone makes one program of all sources of a directory that has one main function and no
// other rules. It returns the sources that are left.
func (g *generator) placeAlone(sources []string) []string {
	if len(sources) == 0 || g.settings.mode != packageMode || len(g.groups) > 0 || !slices.ContainsFunc(sources, func(src string) bool { return g.kindFor(src) == hipKind }) {
		return sources
	}
	main := ""
	var srcs []string
	for _, file := range g.RegularFiles {
		src := path.Join(g.Rel, file)
		s := g.scan(file)
		switch {
		case !isSource(file) || s == nil || g.plan.included[src] || g.plan.claimed[src] || s.isCUDA():
			continue
		case s.main && main != "", s.target, s.loads, g.settings.isTest(file), g.isListed(file), path.Dir(file) != ".":
			return sources
		case s.main:
			main = file
		}
		srcs = append(srcs, file)
	}
	if main == "" {
		return sources
	}
	slices.Sort(srcs)
	needed := slices.DeleteFunc(slices.Clone(srcs), func(src string) bool { return src != main && g.isLoaded(src, srcs) })
	gr := g.newGroup(programKind, g.free(programKind, stemOf(main), "_hip"), false)
	gr.srcs = needed
	gr.leaf = true
	return slices.DeleteFunc(sources, func(src string) bool { return slices.Contains(needed, src) })
}

// isLoaded reports whether a source has only kernels that no other source names: programs load
// them as code objects.
func (g *generator) isLoaded(src string, all []string) bool {
	s := g.scan(src)
	if len(s.kernels) == 0 || s.launch || s.usesHIP() {
		return false
	}
	return !slices.ContainsFunc(all, func(other string) bool {
		return other != src && slices.ContainsFunc(s.kernels, func(kernel string) bool { return g.scan(other).mentions[kernel] })
	})
}

// hipKindIn returns the kind of rule for a new HIP source in its package. Kernels and the code
// that launches them must be in one library. Kernels that no source of the package launches are
// code objects. Device functions are for the device code of others: in a package without
// kernels, they are a library.
func (g *generator) hipKindIn(file string, sources []string) string {
	launches := g.launches
	isTest := g.settings.isTest
	program := g.isProgram(file)
	alone := g.settings.mode == fileMode || program
	switch {
	case program && isTest(file):
		return testKind
	case program:
		return programKind
	case launches(file) || alone && g.deviceOnly(file) || g.hostOnly(file):
		return libraryKind
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

// hostOnly reports whether a source calls HIP and has no device code, with the headers that it includes.
func (g *generator) hostOnly(file string) bool {
	all := g.plan.deep(g.folder, path.Join(g.Rel, file))
	return !all.kernel && !all.device && all.hipAPI
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

// free returns an unused name for a new target of a kind.
func (g *generator) free(kind, name, suffix string) string {
	candidate := name
	for i := 1; slices.ContainsFunc(targetsOf(kind, candidate), func(target string) bool { return g.taken[target] }); i++ {
		candidate = name + suffix
		if i > 1 {
			candidate = fmt.Sprintf("%s%s_%d", name, suffix, i)
		}
	}
	g.take(kind, candidate)
	return candidate
}

// take records the names of the targets of a rule.
func (g *generator) take(kind, name string) {
	for _, target := range targetsOf(kind, name) {
		g.taken[target] = true
	}
}

// targetsOf returns the names of the targets that a rule declares: a program has a library.
func targetsOf(kind, name string) []string {
	if isProgramKind(kind) {
		return []string{name, name + "_hip"}
	}
	return []string{name}
}

// write adds the rule of a group to the result.
func (g *generator) write(gr *group) {
	r := rule.NewRule(gr.kind, gr.name)
	setManaged(r, gr.old, srcsAttr, gr.srcs)
	setManaged(r, gr.old, hdrsAttr, g.withExisting(gr.old, hdrsAttr, gr.hdrs))
	setManaged(r, gr.old, textualAttr, g.withExisting(gr.old, textualAttr, gr.textual))
	if len(gr.includes) > 0 && (gr.old == nil || gr.old.Attr(includesAttr) == nil) {
		r.SetAttr(includesAttr, gr.includes)
	}
	g.setArchs(r, gr.old)
	g.setDefaults(r, gr)
	imports := imports{wanted: gr.elsewhere, local: gr.local, libs: gr.flags.libs, links: gr.links, folder: g.Rel}
	if gr.old != nil {
		imports.deps = gr.old.Attr(depsAttr)
		imports.unread = slices.ContainsFunc(gr.srcs, func(src string) bool { return g.scan(src) == nil })
	} else {
		g.report.written(g.Rel, gr.kind, gr.name)
	}
	g.add(r, imports)
	for name := range g.unitNames(gr) {
		if g.units[name] == nil {
			g.units[name] = map[string]label.Label{}
		}
		g.units[name][g.Rel] = label.New(g.Config.RepoName, g.Rel, gr.name)
	}
	for _, w := range gr.elsewhere {
		files := append(slices.Clone(g.settings.includes), path.Dir(w.found.file))
		for _, dir := range files {
			file := path.Join(dir, path.Base(w.path))
			if dir == "." || dir == "" {
				continue
			}
			g.result.RelsToIndex = append(g.result.RelsToIndex, path.Dir(file))
			if pkg, ok := g.packageOf(g.Config, file); ok {
				g.result.RelsToIndex = append(g.result.RelsToIndex, pkg)
			}
		}
		if w.found.file == "" && !w.angle {
			g.result.RelsToIndex = append(g.result.RelsToIndex, path.Clean(path.Dir(w.path)))
		}
	}
}

// unitNames yields the names of the units of other tools that a rule is for.
func (g *generator) unitNames(gr *group) iter.Seq[string] {
	return func(yield func(string) bool) {
		if isProgramKind(gr.kind) {
			return
		}
		for _, u := range g.folder.units() {
			if u.name != "" && len(u.srcs) > 0 && slices.Contains(gr.srcs, g.sourceLabel(u.srcs[0])) && !yield(u.name) {
				return
			}
		}
	}
}

// withExisting adds the values of an attribute that are files, or targets, and in no source of
// the rule. They stay because a macro or a condition can include them.
func (g *generator) withExisting(old *rule.Rule, attr string, values []string) []string {
	if old == nil {
		return values
	}
	listed, _ := literals(old.Attr(attr))
	for _, value := range listed {
		if g.isThere(value) {
			values = union(values, []string{value})
		}
	}
	slices.Sort(values)
	return values
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
	if gr.kind != openmpKind && (gr.flags.rdc || slices.ContainsFunc(gr.srcs, g.deviceOnly)) {
		r.SetAttr(rdcAttr, true) // kernels of other sources call its functions
	}
	if isLinked(gr.kind) && gr.kind != openmpKind && slices.ContainsFunc(gr.srcs, func(src string) bool {
		return isC(src) && (gr.flags.cAsHIP || g.scan(src).kernel || g.scan(src).chevrons)
	}) {
		r.SetAttr(cAsHIPAttr, true)
	}
	if gr.whole {
		r.SetAttr(alwaysAttr, true)
	}
	for attr, opts := range map[string][]string{coptsAttr: gr.flags.copts, cxxoptsAttr: gr.flags.cxxopts, conlyoptsAttr: gr.flags.conlyopts} {
		if len(opts) > 0 {
			r.SetAttr(attr, opts)
		}
	}
	if len(gr.flags.linkopts) > 0 && isLinked(gr.kind) {
		r.SetAttr(linkoptsAttr, gr.flags.linkopts)
	}
	if gr.testonly {
		if gr.kind != testKind {
			r.SetAttr(testonlyAttr, true)
		}
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

// stemOf returns the name of a file without directory and extension.
func stemOf(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

func isTrue(r *rule.Rule, attr string) bool {
	value := r.Attr(attr)
	return value != nil && (isIdent(value, "True") || r.AttrString(attr) == "1")
}
