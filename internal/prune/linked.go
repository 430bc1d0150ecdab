package prune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// loadedSection returns the section with a name and its content, which is empty if it is missing. A
// segment must load the content.
func loadedSection(f *elfedit.File, name string) (*elfedit.Section, []byte, error) {
	section, err := f.Section(name)
	if err != nil || section < 0 || f.Sections[section].InFile() == 0 {
		return nil, nil, err
	}
	s := &f.Sections[section]
	if off, ok := f.Offset(s.Addr, s.Size); !ok || off != s.Offset {
		return nil, nil, fmt.Errorf("section %s: no segment loads its 0x%x bytes at address 0x%x", name, s.Size, s.Addr)
	}
	return s, f.Content(section).Mapped(guard.Inside), nil
}

// openLinked finds the device code of a shared library or a program.
func (w *Work) openLinked(ctx context.Context) error {
	code := registered.Find(w.in)
	f, err := elfedit.Parse(w.in)
	switch {
	case code.Fault != nil:
		return unsupported(code.Fault)
	case err != nil && len(code.Regions) > 0 && !hasSections(w.in):
		return w.openFixed(ctx, code)
	case err != nil && !mayHaveCode(w.in.Mapped(guard.Inside), code):
		return ErrNoDeviceCode // such as the debug part of a file, or a code object
	case err != nil:
		return unsupported(err)
	case code.Unresolved != nil:
		return code.Unresolved
	}
	w.format = linkedFormat(f)
	var regions []*region
	fixed := slices.ContainsFunc(code.Regions, func(r registered.Region) bool {
		return !r.Alone() || !r.Reached() && !embedding.IsHIPSection(r.Name)
	})
	if !fixed {
		if regions, err = openHIP(ctx, f, code, &w.opt); err != nil {
			return err
		}
	}
	for i := range f.Sections {
		var r *region
		switch s := &f.Sections[i]; {
		case s.InFile() == 0:
		case embedding.IsOffloadSection(string(s.Name), s.Type):
			r, err = w.openOpenMP(ctx, f, i)
		case embedding.IsCUDASection(string(s.Name)):
			r, err = w.linkedCUDA(ctx, f, i)
		}
		if err != nil {
			return err
		}
		if r != nil {
			regions = append(regions, r)
		}
	}
	switch {
	case fixed && len(regions) > 0:
		return unsupported(fmt.Errorf("section %s: found bundles among other data, and device code for other runtimes in section %s", code.Regions[0].Name, f.Sections[regions[0].section].Name))
	case fixed:
		return w.openFixed(ctx, code)
	case len(regions) == 0:
		return ErrNoDeviceCode
	}
	for _, r := range regions {
		w.add(r)
	}
	w.build = func() (*elfedit.Layout, error) { return f.Layout(elfedit.Edit{Changes: changes(regions)}) }
	return nil
}

// hasSections reports whether a linked file has section headers.
func hasSections(in content.Content) bool {
	f, err := elfedit.ParseLoaded(in)
	if err != nil {
		return true
	}
	_, sections, _ := f.Tables()
	return sections != 0
}

// linkedFormat returns Report.Format of a linked file.
func linkedFormat(f *elfedit.File) string {
	if f.Program() {
		return "elf-program"
	}
	return "elf-shared"
}

// MayHaveCode reports whether an ELF file that cannot be changed has device code, or sections that cannot be read.
func MayHaveCode(in content.Content) bool {
	return mayHaveCode(in.Mapped(guard.Inside), registered.Find(in))
}

func mayHaveCode(data []byte, code *registered.Code) bool {
	if len(code.Regions) > 0 || code.Fault != nil {
		return true
	}
	f, err := object.Parse(data)
	if err != nil || len(f.Sections) == 0 && code.Unresolved != nil {
		return true
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if name := string(s.Name); (name == embedding.HIPSection || embedding.IsOffloadSection(name, s.Type) || embedding.IsCUDASection(name) || strings.HasPrefix(name, bundle.SectionPrefix)) && s.Type != elf.ShtNobits && s.Size > 0 {
			return true
		}
	}
	return false
}

// noWrapper returns the error for a section of bundles that no wrapper points to.
func noWrapper(section string) error {
	return fmt.Errorf("section %s: no wrapper in section %s points to it", section, embedding.HIPWrappers)
}

// openHIP returns the regions of bundles that wrappers point to.
func openHIP(ctx context.Context, f *elfedit.File, code *registered.Code, o *Options) (regions []*region, err error) {
	for i, w := range code.Wrappers {
		if w.Magic == embedding.MagicKpack && len(code.Regions) > 0 {
			return nil, fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", i, code.Regions[0].Name)
		}
	}
	for i := range code.Regions {
		if name := code.Regions[i].Name; !code.Regions[i].Reached() {
			return nil, noWrapper(name)
		}
		r, err := linkedHIP(ctx, f, &code.Regions[i], code.Wrappers, o)
		if err != nil {
			return nil, err
		}
		regions = append(regions, r)
	}
	return regions, nil
}

// linkedHIP returns the bundles of a section of a linked file.
func linkedHIP(ctx context.Context, f *elfedit.File, found *registered.Region, wrappers []registered.Wrapper, o *Options) (*region, error) {
	units, err := unitsOf(ctx, found, o)
	if err != nil {
		return nil, err
	}
	s := &f.Sections[found.Section]
	r := &region{section: found.Section, base: s.Addr, align: 4096, units: units, slots: make(map[elfedit.Place]goal)}
	listed := make(map[*unit]bool)
	for _, wrapper := range wrappers {
		i, ok := r.find(wrapper.Offset - int64(s.Offset))
		if !ok || wrapper.Magic != embedding.MagicHIP {
			continue // of another section
		}
		r.order = append(r.order, units[i])
		r.slots[wrapper.Slot] = units[i].goal
		listed[units[i]] = true
	}
	for _, u := range units {
		if !listed[u] {
			r.order = append(r.order, u)
		}
	}
	return r, nil
}

// unitsOf reads the bundles of a region.
func unitsOf(ctx context.Context, found *registered.Region, o *Options) (units []*unit, err error) {
	for i, b := range found.Bundles {
		u, err := openBundle(ctx, found.Content, b.Offset, found.End(i), o)
		if err != nil {
			err = fmt.Errorf("bundle at byte 0x%x: %w", b.Offset, err)
			if found.Name != "" {
				err = fmt.Errorf("section %s: %w", found.Name, err)
			}
			return nil, err
		}
		u.section = found.Name
		units = append(units, u)
	}
	return units, nil
}

// openFixed finds bundles that cannot move: those in a section with other data, or in a file without section headers. They
// are changed at their places, and the file keeps its size.
func (w *Work) openFixed(ctx context.Context, code *registered.Code) error {
	if w.format == "" {
		f, err := elfedit.ParseLoaded(w.in)
		if err != nil {
			return unsupported(err)
		}
		w.format = linkedFormat(f)
	}
	starts := make(map[*unit]int64) // in the file
	for i := range code.Regions {
		r := &code.Regions[i]
		units, err := unitsOf(ctx, r, &w.opt)
		if err != nil {
			return err
		}
		for _, u := range units {
			starts[u] = r.Start + u.at
		}
		w.add(&region{units: units})
	}
	w.build = func() (*elfedit.Layout, error) { return w.layoutFixed(starts) }
	return nil
}

// layoutFixed returns the file with smaller bundles at the same places. Zeros follow them.
func (w *Work) layoutFixed(starts map[*unit]int64) (*elfedit.Layout, error) {
	units := slices.SortedFunc(maps.Keys(starts), func(a, b *unit) int { return cmp.Compare(starts[a], starts[b]) })
	layout := &elfedit.Layout{Size: w.in.Len()}
	copied := int64(0)
	for _, u := range units {
		start := starts[u]
		if start < copied {
			return nil, fmt.Errorf("%s: overlaps the bundle before it", u.where())
		}
		if u.size > u.stored.Len() {
			return nil, fmt.Errorf("%s: %d bytes do not fit into its %d bytes, and it cannot move: link the file again, so that the bundles have a section of their own", u.where(), u.size, u.stored.Len())
		}
		layout.Parts = appendRange(layout.Parts, w.in, copied, start)
		layout.Parts = u.appendTo(layout.Parts, start)
		copied = start + u.stored.Len()
	}
	layout.Parts = appendRange(layout.Parts, w.in, copied, w.in.Len())
	if len(units) > 0 {
		layout.Warnings = append(layout.Warnings, fmt.Sprintf("the file keeps its size: %s is among other data, so that it cannot move", units[0].where()))
	}
	return layout, nil
}

// appendRange appends the bytes of a file from an offset to another, at the same place.
func appendRange(parts []content.Part, in content.Content, from, to int64) []content.Part {
	if from == to {
		return parts
	}
	return append(parts, content.Part{Offset: from, Content: in.Slice(from, to-from)})
}
