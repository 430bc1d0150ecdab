package kpack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Problem is a fault that a Verifier found.
type Problem struct {
	File    string
	Text    string
	Warning bool // readers accept it
}

// Verifier checks archives and libraries that belong together, and collects
// their problems.
type Verifier struct {
	Problems []Problem
	// Budget provides memory for decompressed code; nil means the budget of the
	// process.
	Budget *budget.Budget

	archives []namedArchive
	hosts    []namedHost
	kernels  map[string][]kernelSet // by key
}

type namedArchive struct {
	name string
	*Archive
}

type namedHost struct {
	name string
	*Host
}

// kernelSet holds the names of the kernels in a code object.
type kernelSet struct {
	arch, file string
	names      map[string]bool
}

func (v *Verifier) fail(file, format string, args ...any) {
	v.Problems = append(v.Problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
}

func (v *Verifier) warn(file, format string, args ...any) {
	v.Problems = append(v.Problems, Problem{File: file, Text: fmt.Sprintf(format, args...), Warning: true})
}

// Archive checks an archive. It decompresses each entry and compares it with its
// target ID.
func (v *Verifier) Archive(ctx context.Context, name string, a *Archive) {
	v.archives = append(v.archives, namedArchive{name, a})
	for _, w := range a.Warnings {
		v.warn(name, "%s", w)
	}
	if v.kernels == nil {
		v.kernels = make(map[string][]kernelSet)
	}
	for _, arch := range a.Archs {
		if _, err := target.ParseTargetID(arch); err != nil || arch == "" {
			v.fail(name, "gfx_arches: %q is not a target ID", arch)
		}
	}
	for i := range a.Entries {
		if ctx.Err() != nil {
			return
		}
		v.entry(ctx, name, a, &a.Entries[i])
	}
}

func (v *Verifier) entry(ctx context.Context, name string, a *Archive, e *Entry) {
	where := fmt.Sprintf("%s for %s", clip(e.Key), clip(e.Arch))
	if !slices.Contains(a.Archs, e.Arch) {
		v.fail(name, "%s: %s is not in gfx_arches (%s), so no runtime finds it", where, clip(e.Arch), strings.Join(a.Archs, ", "))
	}
	if e.Type != "hsaco" {
		v.warn(name, "%s: found type %.100q, expected \"hsaco\"", where, e.Type)
	}
	body, memory, err := e.Content(ctx, v.Budget, a.Scheme)
	if err != nil {
		v.fail(name, "%s: %v", where, err)
		return
	}
	defer memory.Release()
	data := body.Mapped(guard.Inside)
	if !codeobject.Is(data) {
		v.warn(name, "%s: not an AMDGPU ELF file", where)
		return
	}
	if t, err := codeobject.ParseTarget(data); err == nil && !Fits(t, e.Arch) {
		v.warn(name, "%s: its ELF flags are for %s", where, t.ID())
	}
	o, err := codeobject.Parse(data)
	if err != nil {
		v.warn(name, "%s: %v", where, err)
		return
	}
	set := kernelSet{arch: e.Arch, file: name, names: make(map[string]bool)}
	for i := range o.Kernels {
		set.names[string(o.Kernels[i].Symbol)] = true
	}
	if len(set.names) > 0 {
		v.kernels[e.Key] = append(v.kernels[e.Key], set)
	}
}

// Fits reports whether code with the target t matches a target ID.
func Fits(t target.CodeObject, arch string) bool {
	id, err := target.ParseTargetID(arch)
	if err != nil || t.Processor == "" {
		return true // unknown target
	}
	if id.Processor != t.Processor {
		return false
	}
	for _, f := range id.Features {
		if state := t.Features.Of(f.Name); state == target.FeatureOn && !f.On || state == target.FeatureOff && f.On {
			return false
		}
	}
	return true
}

// Host checks a library or program with a marker.
func (v *Verifier) Host(name string, h *Host, c content.Content) {
	v.hosts = append(v.hosts, namedHost{name, h})
	if h.file == nil {
		return
	}
	for _, f := range elfcheck.Check(c.Mapped(guard.Inside)) {
		switch f.Rule {
		case elfcheck.Table, elfcheck.Page:
			v.warn(name, "%s", f.Text)
		default:
			v.fail(name, "%s", f.Text)
		}
	}
	section, err := h.file.Section(embedding.KpackSection)
	switch {
	case err != nil:
		v.fail(name, "%v", err)
	case section < 0:
		v.warn(name, "no section %s", embedding.KpackSection)
	}
}

// Finish checks archives and libraries against each other.
func (v *Verifier) Finish() {
	v.sameKernels()
	for _, h := range v.hosts {
		v.complete(h)
	}
}

// sameKernels finds keys whose code objects cannot be from the same source.
func (v *Verifier) sameKernels() {
	for _, key := range slices.Sorted(maps.Keys(v.kernels)) {
		if a, b, ok := strangers(v.kernels[key]); ok {
			v.fail(b.file, "%s: the code for %s and the code for %s have no kernel in common: one of them belongs to another source of the library", clip(key), a.arch, b.arch)
		}
	}
}

// maxCompared is the number of code objects of a key that are compared with all others
// of the key. It is larger than the number of targets.
const maxCompared = 64

// strangers returns two sets that have no names in common.
func strangers(sets []kernelSet) (a, b kernelSet, ok bool) {
	for i, a := range sets[:min(len(sets), maxCompared)] {
		for _, b := range sets[i+1:] {
			if !intersect(a.names, b.names) {
				return a, b, true
			}
		}
	}
	return a, b, false
}

// intersect reports whether two sets have a name in common.
func intersect(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// belongs reports whether a library uses an archive.
func (h *namedHost) belongs(a *Archive) bool {
	for _, e := range a.Entries {
		if name, _, _ := SplitKey(e.Key); name == h.Name {
			return true
		}
	}
	for _, p := range h.SearchPaths {
		if group, _, ok := strings.Cut(path.Base(p), "_"+archPlaceholder); ok && group == a.Group && a.Group != "" {
			return true
		}
	}
	return false
}

// complete checks that there is code for every wrapper of a library.
func (v *Verifier) complete(h namedHost) {
	var archives []namedArchive
	for _, a := range v.archives {
		if h.belongs(a.Archive) {
			archives = append(archives, a)
		}
	}
	if len(archives) == 0 {
		if len(v.archives) > 0 {
			v.fail(h.name, "no archive has code for %s", clip(h.Name))
		}
		return
	}
	asked := make(map[string]bool)
	keys := make([]map[string]bool, len(archives))
	for n, a := range archives {
		keys[n] = make(map[string]bool)
		for i := range a.Entries {
			keys[n][a.Entries[i].Key] = true
		}
	}
	for i, w := range h.Wrappers {
		if w.Magic != embedding.MagicKpack {
			continue
		}
		key := Key(h.Name, int(w.Index))
		if asked[key] {
			continue
		}
		asked[key] = true
		var without []string
		found := false
		for n, a := range archives {
			if keys[n][key] {
				found = true
			} else {
				without = append(without, a.name)
			}
		}
		if !found {
			v.fail(h.name, "wrapper %d: no archive has %s", i, clip(key))
			continue
		}
		for _, name := range without {
			v.warn(h.name, "wrapper %d: %s has no %s", i, name, clip(key))
		}
	}
	for _, a := range archives {
		told := make(map[string]bool)
		for _, e := range a.Entries {
			if name, _, _ := SplitKey(e.Key); name == h.Name && !asked[e.Key] && !told[e.Key] {
				told[e.Key] = true
				v.warn(a.name, "%s: no wrapper of %s refers to it", clip(e.Key), h.name)
			}
		}
	}
}

// Err returns an error with the first problem that is not a warning, and the
// number of such problems.
func (v *Verifier) Err() error {
	var first *Problem
	count := 0
	for i := range v.Problems {
		if p := &v.Problems[i]; !p.Warning {
			if count++; first == nil {
				first = p
			}
		}
	}
	switch count {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %w", first.File, errors.New(first.Text))
	}
	return fmt.Errorf("%s: %s (and %d more problems)", first.File, first.Text, count-1)
}
