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

// Wrapper is a record passed to the HIP runtime for one source.
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
	index := make(map[uint64]int)
	for at, r := range embedding.Records(data, (8-s.Addr%8)%8) {
		index[s.Addr+at+8] = len(all)
		all = append(all, Wrapper{Addr: s.Addr + at, Record: r})
	}
	err = f.Pointers(func(p elfedit.Pointer) error {
		if i, ok := index[p.Slot]; ok {
			all[i].Target = p.Value
		}
		return nil
	})
	return all, err
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
	var changes []func() (elfedit.Change, error)
	hip, err := w.openHIP(ctx, f)
	if err != nil {
		return err
	}
	if hip != nil {
		changes = append(changes, hip)
	}
	openmp, err := w.openOpenMP(ctx, f)
	if err != nil {
		return err
	}
	if openmp != nil {
		changes = append(changes, openmp)
	}
	for _, name := range []string{embedding.CUDASection, embedding.CUDARelocatableSection} {
		cuda, err := w.openCUDA(f, name)
		if err != nil {
			return err
		}
		if cuda != nil {
			changes = append(changes, cuda)
		}
	}
	if len(changes) == 0 {
		return ErrNoDeviceCode
	}
	w.build = func() (*elfedit.Layout, error) {
		var e elfedit.Edit
		for _, change := range changes {
			c, err := change()
			if err != nil {
				return nil, err
			}
			e.Changes = append(e.Changes, c)
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
func (w *Work) openHIP(ctx context.Context, f *elfedit.File) (func() (elfedit.Change, error), error) {
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
	w.units = append(w.units, units...)
	w.order = append(w.order, order...)
	return func() (elfedit.Change, error) {
		c := elfedit.Change{Section: section, Align: 4096, Slots: make(map[uint64]uint64)}
		pos := s.Addr
		for _, u := range units {
			pos = roundUp(pos, alignment(s.Addr+uint64(u.at)))
			u.newAt = int64(pos - s.Addr)
			pos += uint64(u.size)
			for _, part := range u.parts {
				c.Parts = append(c.Parts, content.Part{Offset: u.newAt + part.Offset, Content: part.Content})
			}
		}
		c.Size = pos - s.Addr
		for i, wrapper := range wrappers {
			c.Slots[wrapper.Addr+8] = uint64(order[i].newAt)
		}
		c.Move = mover(units)
		return c, nil
	}, nil
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
	slices.Sort(starts)
	starts = slices.Compact(starts)
	body := f.Content(section)
	byStart := make(map[int64]*unit)
	for i, start := range starts {
		end := body.Len()
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		u, err := openBundle(ctx, body, start, end, o)
		if err != nil {
			return nil, nil, fmt.Errorf("section %s: bundle at byte 0x%x: %w", s.Name, start, err)
		}
		u.section = s.Name
		units = append(units, u)
		byStart[start] = u
	}
	for _, wrapper := range wrappers {
		order = append(order, byStart[int64(wrapper.Target-s.Addr)])
	}
	return units, order, nil
}
