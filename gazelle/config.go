package offload

import (
	"flag"
	"fmt"
	"log"
	"path"
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
)

// mode selects how new sources are assigned to rules.
type mode string

const (
	packageMode mode = "package" // all sources of a package in one rule
	fileMode    mode = "file"    // each source in a separate rule
)

// settings are the settings of one folder, from directives.
type settings struct {
	enabled bool
	mode    mode
	bundle  bool
	// archs is nil without a directive.
	archs []string
	// includes are folders of the repository that compilers get with -I, in search order.
	includes []string
	// listed are the patterns for the sources that rules of the nearest parent package list, by
	// path in the repository.
	listed []patterns
}

func settingsOf(c *config.Config) *settings {
	return c.Exts[languageName].(*settings)
}

// KnownDirectives returns the directives that Configure understands.
func (*offload) KnownDirectives() []string {
	return []string{offloadDirective, archsDirective, modeDirective, bundleDirective, includeDirective}
}

// RegisterFlags sets the defaults at the root.
func (*offload) RegisterFlags(_ *flag.FlagSet, _ string, c *config.Config) {
	c.Exts[languageName] = &settings{enabled: true, mode: packageMode, bundle: true}
}

// CheckFlags inspects the workspace before Gazelle visits the first folder.
func (l *offload) CheckFlags(_ *flag.FlagSet, c *config.Config) error {
	l.ownModule = isModule(c.RepoRoot, moduleName)
	return nil
}

// Configure reads the directives of one folder, and records what its BUILD file provides for
// other packages. Gazelle calls it for a folder before its subfolders.
func (l *offload) Configure(c *config.Config, rel string, f *rule.File) {
	if f == nil {
		return
	}
	s := *settingsOf(c)
	c.Exts[languageName] = &s
	for _, d := range f.Directives {
		if err := s.apply(d, rel); err != nil {
			log.Printf("%s: # gazelle:%s %s: %v", f.Path, d.Key, d.Value, err)
		}
	}
	l.packages[rel] = true
	l.noteLibraries(c, rel, f.Rules)
	l.noteBundles(c, rel, f.Rules)
	s.listed = listedSources(rel, f.Rules)
}

// apply applies a directive in the BUILD file of a folder.
func (s *settings) apply(d rule.Directive, rel string) error {
	switch d.Key {
	case includeDirective:
		if d.Value == "" {
			s.includes = nil
			return nil
		}
		folders := slices.Clone(s.includes)
		for _, folder := range strings.Fields(d.Value) {
			if path.IsAbs(folder) || strings.HasPrefix(path.Join(rel, folder)+"/", "../") {
				return fmt.Errorf("%s is outside of the repository, expected a directory in it, relative to this one", folder)
			}
			folders = append(folders, path.Join(rel, folder))
		}
		s.includes = folders
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
