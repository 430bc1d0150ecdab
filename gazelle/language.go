// Package offload is a Gazelle extension that writes and updates the rules of rules_offload for
// HIP sources (*.hip, *.cu, C++ with kernels) and for C and C++ sources with OpenMP target
// regions. docs/gazelle.md describes its setup and its directives.
package offload

import (
	"os"
	"path/filepath"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/language"
	"github.com/bazelbuild/bazel-gazelle/resolve"
	"github.com/bazelbuild/bazel-gazelle/rule"
	"github.com/bazelbuild/buildtools/build"
)

// languageName is the name of the extension, in directives such as
// "# gazelle:resolve offload math/tile.h //math:tile".
const languageName = "offload"

// The module with the rules, and the file from which they are loaded.
const (
	moduleName = "rules_offload"
	defsFile   = "//rules:defs.bzl"
)

// The generated rules.
const (
	hipKind     = "hip_code_objects" // only kernels
	libraryKind = "hip_library"      // kernels and the host code that launches them
	programKind = "hip_binary"       // programs that launch kernels of other files
	openmpKind  = "openmp_library"
	bundleKind  = "offload_bundle"
)

// The generated attributes.
const (
	srcsAttr       = "srcs"
	hdrsAttr       = "hdrs"
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
	openmpKind:  compiledKind,
	bundleKind: {
		NonEmptyAttrs:   map[string]bool{imagesAttr: true},
		MergeableAttrs:  map[string]bool{imagesAttr: true},
		SubstituteAttrs: map[string]bool{imagesAttr: true},
	},
}

var compiledKind = rule.KindInfo{
	NonEmptyAttrs:  map[string]bool{srcsAttr: true},
	MergeableAttrs: map[string]bool{srcsAttr: true, hdrsAttr: true, archsAttr: true},
	ResolveAttrs:   map[string]bool{depsAttr: true},
}

// isCompiled reports whether rules of a kind have sources.
func isCompiled(kind string) bool { return kind == hipKind || isLinked(kind) }

// isLinked reports whether rules of a kind are C++ programs or libraries for C++ programs.
func isLinked(kind string) bool {
	return kind == libraryKind || kind == programKind || kind == openmpKind
}

// offload is the extension. A run of Gazelle uses one value, in one goroutine.
type offload struct {
	language.BaseLang

	// ownModule is true in the workspace of rules_offload itself.
	ownModule bool
	// scans are the sources and headers read so far, by path in the repository.
	scans map[string]*scan
	// packages records whether folders are packages, for the folders examined so far.
	packages map[string]bool
	// libraries are the C++ libraries from other extensions or users, by package.
	libraries map[string][]*library
	// headers are the headers of the repository by base name, nil before the first search.
	headerFiles map[string][]string
	// bundled holds the labels of all images of the bundles seen so far.
	bundled map[string]bool
}

var (
	_ language.Language            = (*offload)(nil)
	_ language.ModuleAwareLanguage = (*offload)(nil)
	_ resolve.CrossResolver        = (*offload)(nil)
)

// NewLanguage returns the extension; gazelle_binary calls it.
func NewLanguage() language.Language {
	return &offload{
		scans:     make(map[string]*scan),
		packages:  make(map[string]bool),
		libraries: make(map[string][]*library),
		bundled:   make(map[string]bool),
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
	return []rule.LoadInfo{{
		Name:    file,
		Symbols: []string{programKind, hipKind, libraryKind, bundleKind, openmpKind},
	}}
}

// isModule reports whether the workspace at root is that module.
func isModule(root, name string) bool {
	path := filepath.Join(root, "MODULE.bazel")
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	file, err := build.ParseModule(path, data)
	if err != nil {
		return false
	}
	for _, r := range file.Rules("module") {
		if r.Name() == name {
			return true
		}
	}
	return false
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
