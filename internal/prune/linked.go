package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/object"
)

// Wrapper is a record passed to the runtime of HIP or CUDA for one source.
type Wrapper struct {
	embedding.Record
	Addr uint64 // of the record
}

// Wrappers returns the wrappers of a file, in order.
func Wrappers(f *elfedit.File) ([]Wrapper, error) {
	section, err := f.Section(embedding.HIPWrappers)
	if err != nil || section < 0 {
		return nil, err
	}
	s := &f.Sections[section]
	data := f.Content(section).Bytes()
	if s.InFile() == 0 {
		return nil, nil
	}
	if off, ok := f.Offset(s.Addr, s.Size); !ok || off != s.Offset {
		return nil, fmt.Errorf("section %s: no segment loads its 0x%x bytes at address 0x%x", embedding.HIPWrappers, s.Size, s.Addr)
	}
	var all []Wrapper
	for at, r := range embedding.Records(data, (8-s.Addr%8)%8) {
		all = append(all, Wrapper{Addr: s.Addr + at, Record: r})
	}
	return all, relocate(f, all)
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
	if err != nil && !errors.Is(err, elfedit.ErrPacked) && !MayHaveCode(w.in.Bytes()) {
		return ErrNoDeviceCode // such as the debug part of a file, or a code object
	}
	if err != nil {
		return unsupported(err)
	}
	w.format = "elf-shared"
	if f.Program() {
		w.format = "elf-program"
	}
	var changes []func() elfedit.Change
	for _, open := range []func(context.Context, *elfedit.File) (func() elfedit.Change, error){
		w.openHIP, w.openOpenMP, w.openCUDA(embedding.CUDASection), w.openCUDA(embedding.CUDARelocatableSection),
	} {
		change, err := open(ctx, f)
		if err != nil {
			return err
		}
		if change != nil {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		return ErrNoDeviceCode
	}
	w.build = func() (*elfedit.Layout, error) {
		var e elfedit.Edit
		for _, change := range changes {
			e.Changes = append(e.Changes, change())
		}
		return f.Layout(e)
	}
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
func (w *Work) openHIP(ctx context.Context, f *elfedit.File) (func() elfedit.Change, error) {
	section, err := f.Section(embedding.HIPSection)
	if err != nil || section < 0 {
		return nil, err
	}
	s := &f.Sections[section]
	if s.InFile() == 0 {
		return nil, nil // split, or the debug part of a file
	}
	wrappers, err := Wrappers(f)
	if err != nil {
		return nil, err
	}
	if len(wrappers) == 0 {
		return nil, fmt.Errorf("section %s: no wrapper in section %s points to it", embedding.HIPSection, embedding.HIPWrappers)
	}
	units, order, err := openBundles(ctx, f, section, wrappers, &w.opt)
	if err != nil {
		return nil, err
	}
	w.units, w.order = append(w.units, units...), append(w.order, order...)
	return func() elfedit.Change {
		parts, size := layBundles(units, s.Addr)
		c := elfedit.Change{Section: section, Align: 4096, Parts: parts, Size: size, Slots: make(map[uint64]uint64), Move: mover(units)}
		for i, wrapper := range wrappers {
			c.Slots[wrapper.Addr+8] = uint64(order[i].newAt)
		}
		return c
	}, nil
}

// layBundles places bundles in a section at an address, each with the alignment of its old address.
// It returns the content of the section and its size.
func layBundles(units []*unit, addr uint64) (parts []content.Part, size uint64) {
	pos := addr
	for _, u := range units {
		pos = roundUp(pos, alignment(addr+uint64(u.at)))
		u.newAt = int64(pos - addr)
		pos += uint64(u.size)
		parts = u.appendTo(parts, u.newAt)
	}
	return parts, pos - addr
}

// appendTo appends the new content of the unit, which is at an offset, to parts.
func (u *unit) appendTo(parts []content.Part, at int64) []content.Part {
	for _, part := range u.parts {
		parts = append(parts, content.Part{Offset: at + part.Offset, Content: part.Content})
	}
	return parts
}

// mover returns a function that maps offsets in a section with units to new
// offsets.
func mover(units []*unit) func(uint64) (uint64, bool) {
	return func(offset uint64) (uint64, bool) {
		i, found := slices.BinarySearchFunc(units, int64(offset), func(u *unit, at int64) int { return int(min(max(u.at-at, -1), 1)) })
		switch {
		case found:
			return uint64(units[i].newAt), true
		case i == 0:
			return 0, offset == 0
		}
		u := units[i-1]
		inside := int64(offset) - u.at
		if inside >= u.stored.Len() && i < len(units) {
			return uint64(units[i].newAt), false
		}
		return uint64(u.newAt + min(inside, u.size)), false
	}
}

// alignment returns the alignment of a bundle at an address: the alignment of the
// address, at most 4096.
func alignment(addr uint64) uint64 {
	addr |= 4096
	return addr & -addr
}

func roundUp(n, align uint64) uint64 { return (n + align - 1) / align * align }

// openBundles returns the bundles of a section that wrappers point to: units in the
// order of addresses, and order in the order of wrappers.
func openBundles(ctx context.Context, f *elfedit.File, section int, wrappers []Wrapper, o *Options) (units, order []*unit, err error) {
	s := &f.Sections[section]
	var starts []int64
	for i, wrapper := range wrappers {
		if wrapper.Magic == embedding.MagicKpack {
			return nil, nil, fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", i, embedding.HIPSection)
		}
		if wrapper.Target < s.Addr || wrapper.Target-s.Addr >= s.Size {
			return nil, nil, fmt.Errorf("wrapper %d: points to address 0x%x, expected one in section %s (0x%x to 0x%x)", i, wrapper.Target, s.Name, s.Addr, s.Addr+s.Size)
		}
		starts = append(starts, int64(wrapper.Target-s.Addr))
	}
	if units, _, err = bundlesAt(ctx, s.Name, f.Content(section), starts, o); err != nil {
		return nil, nil, err
	}
	byStart := make(map[int64]*unit)
	for _, u := range units {
		byStart[u.at] = u
	}
	for _, wrapper := range wrappers {
		order = append(order, byStart[int64(wrapper.Target-s.Addr)])
	}
	return units, order, nil
}
