package prune

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Wrapper is a record passed to the runtime of HIP or CUDA for one source.
type Wrapper struct {
	embedding.Record
	Addr uint64 // of the record
}

// Wrappers returns the wrappers of a file, in order.
func Wrappers(f *elfedit.File) ([]Wrapper, error) {
	s, data, err := loadedSection(f, embedding.HIPWrappers)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var all []Wrapper
	for at, r := range embedding.Records(data, (8-s.Addr%8)%8) {
		all = append(all, Wrapper{Addr: s.Addr + at, Record: r})
	}
	return all, relocate(f, all)
}

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

// relocate sets the targets of wrappers whose pointers the loader relocates.
func relocate(f *elfedit.File, all []Wrapper) error {
	index := make(map[uint64]*Wrapper)
	for i := range all {
		index[all[i].Addr+8] = &all[i]
	}
	return f.Pointers(func(p elfedit.Pointer) error {
		if wrapper := index[p.Slot]; wrapper != nil {
			wrapper.Target = p.Value
		}
		return nil
	})
}

// openLinked finds the device code of a shared library or a program.
func (w *Work) openLinked(ctx context.Context) error {
	f, err := elfedit.Parse(w.in)
	if err != nil && !errors.Is(err, elfedit.ErrPacked) && !MayHaveCode(w.in.Mapped(guard.Inside)) {
		return ErrNoDeviceCode // such as the debug part of a file, or a code object
	}
	if err != nil {
		return unsupported(err)
	}
	w.format = "elf-shared"
	if f.Program() {
		w.format = "elf-program"
	}
	var regions []*region
	for _, open := range []func() (*region, error){
		func() (*region, error) { return w.openHIP(ctx, f) },
		func() (*region, error) { return w.openOpenMP(ctx, f) },
		func() (*region, error) { return w.linkedCUDA(ctx, f, embedding.CUDASection) },
		func() (*region, error) { return w.linkedCUDA(ctx, f, embedding.CUDARelocatableSection) },
	} {
		r, err := open()
		if err != nil {
			return err
		}
		if r != nil {
			w.add(r)
			regions = append(regions, r)
		}
	}
	if len(regions) == 0 {
		return ErrNoDeviceCode
	}
	w.build = func() (*elfedit.Layout, error) { return f.Layout(elfedit.Edit{Changes: changes(regions)}) }
	return nil
}

// MayHaveCode reports whether an ELF file that cannot be changed has a section with
// device code, or sections that cannot be read.
func MayHaveCode(data []byte) bool {
	f, err := object.Parse(data)
	if err != nil || len(f.Sections) == 0 {
		return true
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if name := string(s.Name); (name == embedding.HIPSection || name == embedding.OffloadSection || isFatbinarySection(name) || strings.HasPrefix(name, bundle.SectionPrefix)) && s.Type != elf.ShtNobits && s.Size > 0 {
			return true
		}
	}
	return false
}

// openHIP finds the bundles that wrappers point to.
func (w *Work) openHIP(ctx context.Context, f *elfedit.File) (*region, error) {
	section, err := f.Section(embedding.HIPSection)
	if err != nil || section < 0 || f.Sections[section].InFile() == 0 {
		return nil, err // without content: split, or the debug part of a file
	}
	wrappers, err := Wrappers(f)
	if err != nil {
		return nil, err
	}
	if len(wrappers) == 0 {
		return nil, fmt.Errorf("section %s: no wrapper in section %s points to it", embedding.HIPSection, embedding.HIPWrappers)
	}
	return linkedHIP(ctx, f, section, wrappers, &w.opt)
}

// linkedHIP returns the bundles of a section that wrappers point to.
func linkedHIP(ctx context.Context, f *elfedit.File, section int, wrappers []Wrapper, o *Options) (*region, error) {
	s := &f.Sections[section]
	var starts []int64
	for i, wrapper := range wrappers {
		if wrapper.Magic == embedding.MagicKpack {
			return nil, fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", i, embedding.HIPSection)
		}
		if wrapper.Target < s.Addr || wrapper.Target-s.Addr >= s.Size {
			return nil, fmt.Errorf("wrapper %d: points to address 0x%x, expected one in section %s (0x%x to 0x%x)", i, wrapper.Target, s.Name, s.Addr, s.Addr+s.Size)
		}
		starts = append(starts, int64(wrapper.Target-s.Addr))
	}
	units, _, err := bundlesAt(ctx, embedding.HIPSection, f.Content(section), starts, o)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	r := &region{section: section, base: s.Addr, align: 4096, units: units, slots: make(map[elfedit.Place]goal)}
	for _, wrapper := range wrappers {
		i, _ := r.find(int64(wrapper.Target - s.Addr))
		r.order = append(r.order, units[i])
		r.slots[elfedit.Place{Offset: wrapper.Addr + 8}] = units[i].goal
	}
	return r, nil
}
