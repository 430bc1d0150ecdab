// Package offload is a Gazelle extension that writes and updates the rules of rules_offload for
// HIP sources (*.hip, *.cu, C++ with kernels) and for C and C++ sources with OpenMP target
// regions. docs/gazelle.md describes its setup and its directives.
package offload

import (
	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/label"
	"github.com/bazelbuild/bazel-gazelle/language"
	"github.com/bazelbuild/bazel-gazelle/resolve"
	"github.com/bazelbuild/bazel-gazelle/rule"
)

// languageName is the name of the extension, in directives such as
// "# gazelle:resolve offload math/tile.h //math:tile".
const languageName = "offload"

// The module with the rules, and the file from which they are loaded.
const (
	moduleName = "rules_offload"
	defsFile   = "//rules:defs.bzl"
	ccModule   = "rules_cc"
)

// The generated rules.
const (
	hipKind     = "hip_code_objects" // only kernels
	libraryKind = "hip_library"      // kernels and the host code that launches them
	programKind = "hip_binary"       // programs
	testKind    = "hip_test"         // programs that are tests
	openmpKind  = "openmp_library"
	bundleKind  = "offload_bundle"
)

// Rules of others that the extension writes: of C++, and of Bazel itself. It does not declare
// them, because other extensions do.
const (
	headersKind = "cc_library" // headers for rules of other packages
	sourcesKind = "filegroup"  // sources for rules of other packages
)

// The generated attributes.
const (
	srcsAttr       = "srcs"
	hdrsAttr       = "hdrs"
	textualAttr    = "textual_hdrs"
	alwaysAttr     = "alwayslink"
	cAsHIPAttr     = "c_as_hip"
	coptsAttr      = "copts"
	cxxoptsAttr    = "cxxopts"
	conlyoptsAttr  = "conlyopts"
	linkoptsAttr   = "linkopts"
	depsAttr       = "deps"
	archsAttr      = "offload_archs"
	imagesAttr     = "images"
	includesAttr   = "includes"
	rdcAttr        = "rdc"
	testonlyAttr   = "testonly"
	visibilityAttr = "visibility"
)

// kinds tells Gazelle how to merge each kind of rule.
var kinds = map[string]rule.KindInfo{
	hipKind:     compiledKind,
	libraryKind: compiledKind,
	programKind: compiledKind,
	testKind:    compiledKind,
	openmpKind:  compiledKind,
	bundleKind: {
		NonEmptyAttrs:   map[string]bool{imagesAttr: true},
		MergeableAttrs:  map[string]bool{imagesAttr: true},
		SubstituteAttrs: map[string]bool{imagesAttr: true},
	},
}

var compiledKind = rule.KindInfo{
	NonEmptyAttrs:  map[string]bool{srcsAttr: true},
	MergeableAttrs: map[string]bool{srcsAttr: true, hdrsAttr: true, textualAttr: true, archsAttr: true},
	ResolveAttrs:   map[string]bool{depsAttr: true},
}

// isCompiled reports whether rules of a kind have sources.
func isCompiled(kind string) bool { return kind == hipKind || isLinked(kind) }

// isLinked reports whether rules of a kind are C++ programs or libraries for C++ programs.
func isLinked(kind string) bool {
	return kind == libraryKind || isProgramKind(kind) || kind == openmpKind
}

// isProgramKind reports whether rules of a kind are programs.
func isProgramKind(kind string) bool { return kind == programKind || kind == testKind }

// offload is the extension. A run of Gazelle uses one value, in one goroutine.
type offload struct {
	language.BaseLang
	language.BaseLifecycleManager

	// ownModule is true in the workspace of rules_offload itself.
	ownModule bool
	// scans are the sources and headers read so far, by path in the repository.
	scans map[string]*scan
	// packages records whether directories are packages, for the directories examined so far.
	packages map[string]bool
	// libraries are the C++ libraries from other extensions or users, by package.
	libraries map[string][]*library
	// plan is nil before the first rule is generated.
	plan *plan
	// units are the labels of the rules for units of other tools, by the names and directories of the units.
	units map[string]map[string]label.Label
	// sharedHeaders are the libraries with headers that no other library has, by header.
	sharedHeaders map[string]label.Label
	// rootSettings are the settings above the root.
	rootSettings *settings
	// reportFile is the file for the report, from the command line.
	reportFile string
	report     report
	// bundled holds the labels of all images of the bundles seen so far.
	bundled map[string]bool
}

var (
	_ language.Language            = (*offload)(nil)
	_ language.ModuleAwareLanguage = (*offload)(nil)
	_ language.LifecycleManager    = (*offload)(nil)
	_ resolve.CrossResolver        = (*offload)(nil)
)

// NewLanguage returns the extension; gazelle_binary calls it.
func NewLanguage() language.Language {
	return &offload{
		scans:     make(map[string]*scan),
		packages:  make(map[string]bool),
		libraries: make(map[string][]*library),
		bundled:   make(map[string]bool),

		units:         make(map[string]map[string]label.Label),
		sharedHeaders: make(map[string]label.Label),
	}
}

// Name returns the name of the extension.
func (*offload) Name() string { return languageName }

// Kinds returns the rules that the extension writes.
func (*offload) Kinds() map[string]rule.KindInfo { return kinds }

// Loads returns the files from which the rules are loaded if the module names are unknown.
func (l *offload) Loads() []rule.LoadInfo {
	return l.ApparentLoads(func(string) string { return "" })
}

// ApparentLoads returns the files from which the rules are loaded, with the name of
// rules_offload in the workspace.
func (l *offload) ApparentLoads(moduleToApparentName func(string) string) []rule.LoadInfo {
	name := moduleToApparentName(moduleName)
	if name == "" {
		name = moduleName
	}
	file := "@" + name + defsFile
	if l.ownModule {
		file = defsFile
	}
	loads := []rule.LoadInfo{{
		Name:    file,
		Symbols: []string{programKind, testKind, hipKind, libraryKind, bundleKind, openmpKind},
	}}
	// Bazel 9 requires it; Bazel 7 and 8 also have the rule themselves.
	if cc := moduleToApparentName(ccModule); cc != "" {
		loads = append(loads, rule.LoadInfo{Name: "@" + cc + "//cc:cc_library.bzl", Symbols: []string{headersKind}})
	}
	return loads
}

// kindOf returns the original kind of an existing rule, which directives such as map_kind and
// macro can rename.
func kindOf(c *config.Config, r *rule.Rule) string {
	kind := r.Kind()
	if wrapped, ok := c.AliasMap[kind]; ok {
		kind = wrapped
	}
	for from, mapped := range c.KindMap {
		if mapped.KindName == kind {
			return from
		}
	}
	return kind
}
