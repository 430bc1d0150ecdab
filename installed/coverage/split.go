package coverage

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/kpack"
)

// Place states where the runtime finds the code for a source of a split library, or why it
// finds none.
type Place struct {
	Key     string `json:"key,omitempty"`     // in archives
	Archive string `json:"archive,omitempty"` // the file with the code
	Target  string `json:"target,omitempty"`  // the target ID of the code in the archive
	Reason  string `json:"reason,omitempty"`  // why no code is found or loaded
}

// split is a library whose device code is in kpack archives.
type split struct {
	file    string
	bundles []Bundle // that are still in the library
	keys    []string // that the runtime asks archives for, one for each source
	paths   []searchPath
	host    *hostCode
}

// searchPath is a place where the runtime searches for archives.
type searchPath struct {
	// pattern is the path in messages; @GFXARCH@ stands for the target ID.
	pattern string
	// archives are the files that exist, by target ID. A path without @GFXARCH@ has one, for "".
	archives map[string]*archive
}

// archive is a kpack archive.
type archive struct {
	name   string       // of the file
	input  *files.Input // open until the end of the check; nil in packages
	fault  string       // why the runtime skips the archive, or ""
	parsed *kpack.Archive
	// byKey are the entries of parsed by key and target ID, including those of other libraries.
	byKey map[string]map[string]*kpack.Entry
	// code are the code objects that were read, by ordinal.
	code map[int]*archived
}

// archived is a code object in an archive. Its ID is that of the entry.
type archived struct {
	Image
	fault string // why the code object cannot be read, or ""
}

// empty reports whether nothing is in a code object.
func (c *archived) empty() bool { return c.Size == 0 || c.Empty }

// askSplit returns the code that GPUs find in a split library and in its archives.
func askSplit(s *split, gpus []GPU) FileReport {
	r := askSources(s.file, s.sources(), gpus, s.host)
	r.note = r.reason()
	return r
}

// sources returns the bundles in the library and the sources whose code is in archives.
func (s *split) sources() []source {
	sources := make([]source, 0, len(s.bundles)+len(s.keys))
	for i := range s.bundles {
		sources = append(sources, &s.bundles[i])
	}
	for _, key := range s.keys {
		sources = append(sources, s.source(key))
	}
	return sources
}

// unreadable returns the result for a file whose device code cannot be read.
func unreadable(file string, gpus []GPU, err error) FileReport {
	r := report(file, gpus, func(Mode) []answer { return []answer{{verdict: No}} })
	r.Unreadable = strings.TrimPrefix(err.Error(), file+": ")
	r.note = "cannot read: " + r.Unreadable
	return r
}

// elsewhere returns the result for a file whose device code is in other files, which cannot be
// found for the given reason.
func elsewhere(file string, gpus []GPU, reason string) FileReport {
	r := report(file, gpus, func(Mode) []answer { return []answer{{verdict: No, place: &Place{Reason: reason}}} })
	r.note = reason
	return r
}

// Split reports whether code for the file is searched for in archives.
func (f *FileReport) Split() bool {
	return slices.ContainsFunc(f.GPUs, func(g GPUReport) bool {
		return slices.ContainsFunc(g.Modes, func(m ModeReport) bool { return m.Code != nil })
	})
}

// reason returns the first reason why a mode does not find code, or "".
func (f *FileReport) reason() string {
	for _, g := range f.GPUs {
		for _, m := range g.Modes {
			for _, p := range m.Code {
				if p.Reason != "" {
					return p.Reason
				}
			}
		}
	}
	return ""
}

// splitSource is a source of a split library.
type splitSource struct {
	split *split
	key   string
	found bool // an archive has code for it
	bare  bool // all the code is empty
}

func (s *split) source(key string) *splitSource {
	src := &splitSource{split: s, key: key, bare: true}
	for _, p := range s.paths {
		for _, a := range p.archives {
			for _, e := range a.byKey[key] {
				src.found = true
				src.bare = src.bare && a.code[e.Ordinal].empty()
			}
		}
	}
	return src
}

// empty reports whether archives have only empty code for the source. A source without code in
// any archive is not empty: its archive may be missing.
func (s *splitSource) empty() bool { return s.found && s.bare }

// images returns the code objects of the source in all archives.
func (s *splitSource) images() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		for _, p := range s.split.paths {
			for _, id := range slices.Sorted(maps.Keys(p.archives)) {
				a := p.archives[id]
				for _, arch := range slices.Sorted(maps.Keys(a.byKey[s.key])) {
					if !yield(&a.code[a.byKey[s.key][arch].Ordinal].Image) {
						return
					}
				}
			}
		}
	}
}

// archives returns the archives that the runtime opens, in order.
func (s *split) archives(searches []searched) []*archive {
	var list []*archive
	add := func(a *archive) {
		if a != nil && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, p := range s.paths {
		add(p.archives[""])
		for _, t := range searches {
			add(p.archives[t.id])
		}
	}
	return list
}

// ask returns the code that a mode finds.
func (s *splitSource) ask(m Mode) answer {
	searches := m.searches()
	archives := s.split.archives(searches)
	first := true
	for _, t := range searches {
		for _, a := range archives {
			if a.fault != "" || !slices.Contains(a.parsed.Archs, t.id) {
				continue
			}
			e := a.byKey[s.key][t.id]
			if e == nil {
				first = false
				continue
			}
			found := s.load(m, a, t, e)
			if !first {
				found.older = No
			}
			return found
		}
	}
	return answer{verdict: No, place: &Place{Key: s.key, Reason: s.missing(m, archives, searches)}}
}

// load returns the result for code that was found in an archive.
func (s *splitSource) load(m Mode, a *archive, t searched, e *kpack.Entry) answer {
	code := a.code[e.Ordinal]
	place := &Place{Key: s.key, Archive: a.name, Target: t.id}
	no := func(format string, args ...any) answer {
		place.Reason = fmt.Sprintf("%s: %s for %s", a.name, s.key, t.id) + fmt.Sprintf(format, args...)
		return answer{verdict: No, place: place}
	}
	switch {
	case code.fault != "":
		return no(": %s", code.fault)
	case code.Size == 0:
		return no(" has 0 bytes")
	case !code.loads(m) && code.Code == nil:
		return no(" is no AMD code object, which does not load on %s", m)
	case !code.loads(m):
		return no(" is code for %s, which does not load on %s", code.Code.ID(), m)
	case code.Empty && !s.bare:
		return answer{verdict: Empty, how: t.how, entry: e.ID(), place: place, image: &code.Image}
	}
	return answer{verdict: Yes, how: t.how, entry: e.ID(), place: place, image: &code.Image}
}

// missing describes why no archive has the code for a mode.
func (s *splitSource) missing(m Mode, archives []*archive, searches []searched) string {
	var reasons []string
	for _, a := range archives {
		asked := func(t searched) bool { return slices.Contains(a.parsed.Archs, t.id) }
		switch {
		case a.fault != "":
			reasons = append(reasons, a.name+": "+a.fault)
		case len(a.parsed.Entries) == 0:
			reasons = append(reasons, a.name+" is empty: it has no entries")
		case !slices.ContainsFunc(searches, asked):
			reasons = append(reasons, fmt.Sprintf("%s has code for %s, not for %s", a.name, strings.Join(a.parsed.Archs, ", "), m))
		default:
			reasons = append(reasons, fmt.Sprintf("%s has no code for %s", a.name, s.key))
		}
	}
	if len(reasons) > 0 {
		return strings.Join(reasons, "; ")
	}
	return fmt.Sprintf("no archive %s exists for %s", patterns(s.split.paths), m)
}

// patterns lists search paths.
func patterns(paths []searchPath) string {
	list := make([]string, len(paths))
	for i := range paths {
		list[i] = paths[i].pattern
	}
	return strings.Join(list, ", ")
}
