package offload

import (
	"flag"
	"fmt"
	"log"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bazelbuild/bazel-gazelle/config"
	"github.com/bazelbuild/bazel-gazelle/rule"
)

// The directives.
const (
	offloadDirective = "offload"
	archsDirective   = "offload_archs"
	modeDirective    = "offload_mode"
	bundleDirective  = "offload_bundle"
	includeDirective = "offload_include"
	rocmDirective    = "offload_rocm"
	hintsDirective   = "offload_hints"
	testDirective    = "offload_test_pattern"

	compileCommandsDirective = "offload_compile_commands"
)

// Gazelle's own directives that the extension also reads.
const (
	generationDirective    = "generation_mode"
	resolveDirective       = "resolve"
	resolveRegexpDirective = "resolve_regexp"
)

// defaultTests are the names of sources of tests.
var defaultTests = []string{"*_test.*", "test_*.*"}

// mode selects how new sources are assigned to rules.
type mode string

const (
	packageMode mode = "package" // all sources of a package in one rule
	fileMode    mode = "file"    // each source in a separate rule
)

// settings are the settings of one directory, from directives.
type settings struct {
	enabled bool
	mode    mode
	bundle  bool
	// archs is nil without a directive.
	archs []string
	// includes are directories of the repository that compilers get with -I, in search order.
	includes []string
	// listed are the patterns for the sources that rules of the nearest parent package list, by
	// path in the repository.
	listed []patterns
	// rocm is the repository with the targets of ROCm's libraries, such as "@rocm"; "" for none.
	rocm string
	// hints is true if build files of other tools are read.
	hints bool
	// compileCommands is the path in the repository of a compile_commands.json; "" for none.
	compileCommands, compileCommandsDir string
	// tests are the patterns for the names of sources of tests.
	tests []string
	// updateOnly is true if directories without a BUILD file belong to the package above.
	updateOnly bool
	// resolved are the includes for which directives name a library, resolvedLike their patterns.
	resolved     []string
	resolvedLike []*regexp.Regexp
}

func settingsOf(c *config.Config) *settings {
	return c.Exts[languageName].(*settings)
}

// KnownDirectives returns the directives that Configure understands.
func (*offload) KnownDirectives() []string {
	return []string{
		offloadDirective, archsDirective, modeDirective, bundleDirective, includeDirective, rocmDirective, hintsDirective, testDirective, compileCommandsDirective,
	}
}

// RegisterFlags sets the defaults at the root.
func (l *offload) RegisterFlags(flags *flag.FlagSet, _ string, c *config.Config) {
	flags.StringVar(&l.reportFile, "offload_report", "", "write a report on generated rules to this file, relative to the workspace; - for standard output")
	l.rootSettings = &settings{enabled: true, mode: packageMode, bundle: true, hints: true, tests: defaultTests}
	c.Exts[languageName] = l.rootSettings
}

// CheckFlags inspects the workspace before Gazelle visits the first directory.
func (l *offload) CheckFlags(_ *flag.FlagSet, c *config.Config) error {
	module := readModule(c.RepoRoot)
	l.ownModule = module.name() == moduleName
	l.rootSettings.rocm = module.rocm()
	return nil
}

// Configure reads the directives of one directory, and records what its BUILD file provides for
// other packages. Gazelle calls it for a directory before its subdirectories.
func (l *offload) Configure(c *config.Config, rel string, f *rule.File) {
	if f == nil {
		return
	}
	c.Exts[languageName] = settingsOf(c).with(f, rel, func(d rule.Directive, err error) {
		log.Printf("%s: # gazelle:%s %s: %v", f.Path, d.Key, d.Value, err)
	})
	l.packages[rel] = true
	l.noteLibraries(c, rel, f.Rules)
	l.noteBundles(c, rel, f.Rules)
}

// with returns the settings below a BUILD file. It reports directives with errors.
func (s *settings) with(f *rule.File, rel string, report func(rule.Directive, error)) *settings {
	below := *s
	for _, d := range f.Directives {
		if err := below.apply(d, rel); err != nil && report != nil {
			report(d, err)
		}
	}
	below.listed = listedSources(rel, f.Rules)
	return &below
}

// overrides reports whether a directive of Gazelle names the library of an include.
func (s *settings) overrides(inc include, file string) bool {
	for _, name := range []string{inc.path, file} {
		if slices.Contains(s.resolved, name) || name != "" && slices.ContainsFunc(s.resolvedLike, func(like *regexp.Regexp) bool { return like.MatchString(name) }) {
			return true
		}
	}
	return false
}

// isTest reports whether a source has the name of a test.
func (s *settings) isTest(file string) bool {
	return slices.ContainsFunc(s.tests, func(pattern string) bool {
		ok, err := path.Match(pattern, path.Base(file))
		return ok && err == nil
	})
}

// apply applies a directive in the BUILD file of a directory.
func (s *settings) apply(d rule.Directive, rel string) error {
	switch d.Key {
	case includeDirective:
		if d.Value == "" {
			s.includes = nil
			return nil
		}
		folders := slices.Clone(s.includes)
		for _, folder := range strings.Fields(d.Value) {
			dir, ok := inRepository(rel, folder)
			if !ok {
				return fmt.Errorf("%s is outside of the repository, expected a directory in it, relative to this one", folder)
			}
			folders = append(folders, dir)
		}
		s.includes = folders
	case resolveDirective, resolveRegexpDirective:
		s.override(d)
	case generationDirective:
		s.updateOnly = d.Value == "update_only"
	case rocmDirective:
		s.rocm = strings.TrimSuffix(d.Value, "//")
		if s.rocm != "" && !strings.HasPrefix(s.rocm, "@") {
			return fmt.Errorf("expected a repository, such as @%s", s.rocm)
		}
	case hintsDirective:
		return choose(&s.hints, d.Value, "true", "false")
	case testDirective:
		s.tests = strings.Fields(d.Value)
		for _, pattern := range s.tests {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("%s is not a pattern for names", pattern)
			}
		}
	case compileCommandsDirective:
		s.compileCommands, s.compileCommandsDir = "", rel
		if d.Value == "" {
			return nil
		}
		file, ok := inRepository(rel, d.Value)
		if !ok {
			return fmt.Errorf("expected a file in the repository, relative to this directory")
		}
		s.compileCommands = file
	case offloadDirective:
		return choose(&s.enabled, d.Value, "enabled", "disabled")
	case bundleDirective:
		return choose(&s.bundle, d.Value, "true", "false")
	case modeDirective:
		switch m := mode(d.Value); m {
		case packageMode, fileMode:
			s.mode = m
		default:
			return fmt.Errorf("expected %s or %s", packageMode, fileMode)
		}
	case archsDirective:
		archs := strings.FieldsFunc(d.Value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		for i, arch := range archs {
			if slices.Contains(archs[:i], arch) {
				return fmt.Errorf("%s occurs twice", arch)
			}
		}
		s.archs = archs
		if len(archs) == 0 {
			s.archs = nil
		}
	}
	return nil
}

// choose sets a switch from a word for on or off.
func choose(to *bool, value, on, off string) error {
	if value != on && value != off {
		return fmt.Errorf("expected %s or %s", on, off)
	}
	*to = value == on
	return nil
}

// override records a directive that names the library of an include.
func (s *settings) override(d rule.Directive) {
	fields := strings.Fields(d.Value)
	if len(fields) < 3 || fields[0] != languageName && fields[0] != ccLanguage {
		return
	}
	name := fields[len(fields)-2]
	if d.Key == resolveDirective {
		s.resolved = append(slices.Clone(s.resolved), name)
	} else if like, err := regexp.Compile(name); err == nil {
		s.resolvedLike = append(slices.Clone(s.resolvedLike), like)
	}
}
