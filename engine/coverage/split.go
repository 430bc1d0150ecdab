package coverage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Split is a library whose device code is in kpack archives.
type Split struct {
	File string
	// Bundles are the bundles that are still in the library.
	Bundles []Bundle
	// Keys are the keys that the runtime asks archives for, one for each source.
	Keys []string
	// Paths are the search paths of the library, in order.
	Paths []SearchPath
}

// SearchPath is a place where the runtime searches for archives.
type SearchPath struct {
	// Pattern is the path in messages; @GFXARCH@ stands for the target ID.
	Pattern string
	// Archives are the files that exist, by target ID. A path without @GFXARCH@ has one, for "".
	Archives map[string]*Archive
}

// Archive is a kpack archive.
type Archive struct {
	Name string // of the file
	// Fault describes why the runtime skips the archive, or is "".
	Fault string
	// Targets are the target IDs for which the runtime asks the archive.
	Targets []string
	// Entries is the number of entries, including those of other libraries.
	Entries int
	// Images are the code objects of the library by key and target ID.
	Images map[string]map[string]ArchivedImage
}

// ArchivedImage is a code object in an archive.
type ArchivedImage struct {
	Image
	// Fault describes why the code object cannot be read, or is "".
	Fault string
}

// Place states where the runtime finds the code for a source of a split library, or why it
// finds none.
type Place struct {
	Key     string `json:"key,omitempty"`     // in archives
	Archive string `json:"archive,omitempty"` // the file with the code
	Target  string `json:"target,omitempty"`  // the target ID of the code in the archive
	Reason  string `json:"reason,omitempty"`  // why no code is found or loaded
}

// AskSplit returns the code that GPUs find in a split library and in its archives.
func AskSplit(s *Split, gpus []GPU) FileReport {
	sources := make([]source, 0, len(s.Bundles)+len(s.Keys))
	for i := range s.Bundles {
		sources = append(sources, &s.Bundles[i])
	}
	for _, key := range s.Keys {
		sources = append(sources, s.source(key))
	}
	r := askSources(s.File, sources, gpus)
	r.Note = r.reason()
	return r
}

// Unreadable returns the result for a file whose device code is in other files, which cannot be
// found for the given reason.
func Unreadable(file string, gpus []GPU, reason string) FileReport {
	r := report(file, gpus, func(Mode) []answer { return []answer{{verdict: No, place: &Place{Reason: reason}}} })
	r.Note = reason
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
	split *Split
	key   string
	found bool // an archive has code for it
	bare  bool // all the code is empty
}

func (s *Split) source(key string) *splitSource {
	src := &splitSource{split: s, key: key, bare: true}
	for _, p := range s.Paths {
		for _, a := range p.Archives {
			for _, img := range a.Images[key] {
				src.found = true
				src.bare = src.bare && (img.Size == 0 || img.Empty)
			}
		}
	}
	return src
}

// empty reports whether archives have only empty code for the source. A source without code in
// any archive is not empty: its archive may be missing.
func (s *splitSource) empty() bool { return s.found && s.bare }

// searched is a target ID that the runtime asks archives for.
type searched struct {
	id  string
	how How
}

// searches returns the target IDs for a mode, in the order of the runtime: the processor and then
// its generic processor, each with all features, with fewer, and without any. A generic processor
// that does not have a feature of the mode is left out, as in bundles.
func (m Mode) searches() []searched {
	const triple = "hip-amdgcn-amd-amdhsa--"
	var list []searched
	add := func(processor string, how How) {
		full := Mode{processor, m.SRAMECC, m.XNACK}.String()
		if id, err := target.Parse(triple + full); err != nil || target.CheckTargetID(id.Triple, full) != nil {
			return
		}
		for _, fewer := range []Mode{
			{processor, m.SRAMECC, m.XNACK}, {processor, m.SRAMECC, target.FeatureUnsupported},
			{processor, target.FeatureUnsupported, m.XNACK}, {Processor: processor},
		} {
			if s := (searched{fewer.String(), how}); !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	add(m.Processor, Native)
	if generic := GenericOf(m.Processor); generic != "" {
		add(generic, Generic)
	}
	return list
}

// archives returns the archives that the runtime opens, in order.
func (s *Split) archives(searches []searched) []*Archive {
	var list []*Archive
	add := func(a *Archive) {
		if a != nil && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, p := range s.Paths {
		add(p.Archives[""])
		for _, t := range searches {
			add(p.Archives[t.id])
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
			if a.Fault != "" || !slices.Contains(a.Targets, t.id) {
				continue
			}
			img, ok := a.Images[s.key][t.id]
			if !ok {
				first = false
				continue
			}
			found := s.load(m, a, t, &img)
			if !first {
				found.older = No
			}
			return found
		}
	}
	return answer{verdict: No, place: &Place{Key: s.key, Reason: s.missing(m, archives, searches)}}
}

// load returns the result for code that was found in an archive.
func (s *splitSource) load(m Mode, a *Archive, t searched, img *ArchivedImage) answer {
	place := &Place{Key: s.key, Archive: a.Name, Target: t.id}
	no := func(format string, args ...any) answer {
		place.Reason = fmt.Sprintf("%s: %s for %s", a.Name, s.key, t.id) + fmt.Sprintf(format, args...)
		return answer{verdict: No, place: place}
	}
	switch {
	case img.Fault != "":
		return no(": %s", img.Fault)
	case img.Size == 0:
		return no(" has 0 bytes")
	case !img.loads(m) && img.Code == nil:
		return no(" is no AMD code object, which does not load on %s", m)
	case !img.loads(m):
		return no(" is code for %s, which does not load on %s", img.Code.ID(), m)
	case img.Empty && !s.bare:
		return answer{verdict: Empty, how: t.how, entry: img.ID, place: place}
	}
	return answer{verdict: Yes, how: t.how, entry: img.ID, place: place}
}

// missing describes why no archive has the code for a mode.
func (s *splitSource) missing(m Mode, archives []*Archive, searches []searched) string {
	var reasons []string
	for _, a := range archives {
		asked := slices.ContainsFunc(searches, func(t searched) bool { return slices.Contains(a.Targets, t.id) })
		switch {
		case a.Fault != "":
			reasons = append(reasons, a.Name+": "+a.Fault)
		case a.Entries == 0:
			reasons = append(reasons, a.Name+" is empty: it has no entries")
		case !asked:
			reasons = append(reasons, fmt.Sprintf("%s has code for %s, not for %s", a.Name, strings.Join(a.Targets, ", "), m))
		default:
			reasons = append(reasons, fmt.Sprintf("%s has no code for %s", a.Name, s.key))
		}
	}
	if len(reasons) > 0 {
		return strings.Join(reasons, "; ")
	}
	var patterns []string
	for _, p := range s.split.Paths {
		patterns = append(patterns, p.Pattern)
	}
	return fmt.Sprintf("no archive %s exists for %s", strings.Join(patterns, ", "), m)
}
