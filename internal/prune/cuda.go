package prune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// layFatbinaries returns the layout of consecutive fatbinaries, whose alignment is that of
// the old ones, at most 8.
func layFatbinaries(units []*unit) *elfedit.Layout {
	align := uint64(8)
	for _, u := range units {
		align = min(align, alignment(uint64(u.at)))
	}
	return lay(units, align)
}

// isFatbinarySection reports whether a section of this name has CUDA fatbinaries.
func isFatbinarySection(name string) bool {
	return name == embedding.CUDASection || name == embedding.CUDARelocatableSection
}

// fatbinaries returns the adjacent CUDA fatbinaries in c.
func fatbinaries(c content.Content, section string) ([]*unit, error) {
	var units []*unit
	for f, err := range cubin.Fatbinaries(c.Bytes()) {
		if err != nil {
			return nil, err
		}
		u := &unit{at: f.Offset, stored: c.Slice(f.Offset, f.Size), section: section, size: f.Size, fatbinary: true}
		images, err := cubin.Images(u.stored.Bytes())
		if err != nil {
			return nil, fmt.Errorf("fatbinary at byte 0x%x: %w", f.Offset, err)
		}
		for _, image := range images {
			e := imageEntry("nvptx64-nvidia-cuda", image.Arch, image.Size)
			e.offset = image.Offset
			u.entries = append(u.entries, e)
		}
		units = append(units, u)
	}
	return units, nil
}

// rewriteFatbinary writes a fatbinary with the kept images, whose bytes do not change. It
// remains, without images, if it loses all of them, because a wrapper points to it.
func (u *unit) rewriteFatbinary() error {
	size := int64(0)
	for i := range u.entries {
		e := &u.entries[i]
		if e.drop {
			continue
		}
		if e.replacement != nil {
			return fmt.Errorf("%s: images of CUDA fatbinaries cannot be replaced; only removed", e.id)
		}
		size += e.size
	}
	var out partSink
	out.add(content.Memory(cubin.NewHeader(u.stored.Bytes(), size)))
	for i := range u.entries {
		if e := &u.entries[i]; !e.drop {
			out.add(u.stored.Slice(e.offset, e.size))
		}
	}
	u.parts, u.size = out.parts, out.size
	return nil
}

// otherVendor reports whether all code is in CUDA fatbinaries, but no name to keep is for them: a
// directory for AMD's GPUs can have such files.
func (w *work) otherVendor() bool {
	cuda := func(name string) bool {
		return strings.HasPrefix(name, "sm_") || strings.HasPrefix(name, "compute_") || strings.HasPrefix(name, "nvptx")
	}
	return len(w.opt.Keep) > 0 && !slices.ContainsFunc(w.opt.Keep, cuda) &&
		!slices.ContainsFunc(w.units, func(u *unit) bool { return !u.fatbinary })
}

// add adds units to the work.
func (w *Work) add(units []*unit) {
	w.units, w.order = append(w.units, units...), append(w.order, units...)
}

// openFatbinaries finds the images in a file of CUDA fatbinaries.
func (w *Work) openFatbinaries() error {
	w.format = "fatbinary"
	units, err := fatbinaries(w.in, "")
	if err != nil {
		return err
	}
	w.add(units)
	w.build = func() (*elfedit.Layout, error) { return layFatbinaries(units), nil }
	return nil
}

// objectCUDA finds the images in a section of an object.
func (w *Work) objectCUDA(o *elfedit.Object, section int) (func() elfedit.ObjectChange, error) {
	name := o.Sections[section].Name
	units, err := fatbinaries(o.Content(section), name)
	if err != nil {
		return nil, unsupported(fmt.Errorf("section %s: %w", name, err))
	}
	w.add(units)
	return func() elfedit.ObjectChange {
		layout := layFatbinaries(units)
		return elfedit.ObjectChange{Section: section, Parts: layout.Parts, Size: uint64(layout.Size), Move: mover(units)}
	}, nil
}

// cudaWrappers returns the records of a linked file that point to fatbinaries.
func cudaWrappers(f *elfedit.File) ([]Wrapper, error) {
	section, err := f.Section(embedding.CUDAWrappers)
	if err != nil || section < 0 {
		return nil, err
	}
	s := &f.Sections[section]
	data := f.Content(section).Bytes()
	if off, ok := f.Offset(s.Addr, s.Size); len(data) > 0 && (!ok || off != s.Offset) {
		return nil, fmt.Errorf("section %s: no segment loads its 0x%x bytes at address 0x%x", s.Name, s.Size, s.Addr)
	}
	var all []Wrapper
	for at := (8 - s.Addr%8) % 8; uint64(len(data)) >= embedding.RecordSize && at <= uint64(len(data))-embedding.RecordSize; at += 8 {
		b := data[at:]
		if binary.LittleEndian.Uint32(b) != embedding.MagicCUDA {
			continue
		}
		if version := binary.LittleEndian.Uint32(b[4:]); version != 1 && f.Type == elf.EtExec {
			return nil, fmt.Errorf("section %s: found a wrapper of version %d, expected version 1 in a program at fixed addresses; link it with -pie", s.Name, version)
		}
		all = append(all, Wrapper{Addr: s.Addr + at, Record: embedding.Record{Target: binary.LittleEndian.Uint64(b[8:])}})
		at += embedding.RecordSize - 8
	}
	return all, relocate(f, all)
}

// openCUDA returns a function that finds the fatbinaries of a linked file in one of the sections for
// them.
func (w *Work) openCUDA(name string) func(context.Context, *elfedit.File) (func() elfedit.Change, error) {
	return func(_ context.Context, f *elfedit.File) (func() elfedit.Change, error) { return w.linkedCUDA(f, name) }
}

func (w *Work) linkedCUDA(f *elfedit.File, name string) (func() elfedit.Change, error) {
	section, err := f.Section(name)
	if err != nil || section < 0 || f.Sections[section].InFile() == 0 {
		return nil, err
	}
	s := &f.Sections[section]
	units, err := fatbinaries(f.Content(section), name)
	if err != nil {
		return nil, unsupported(fmt.Errorf("section %s: %w", name, err))
	}
	slots, err := cudaSlots(f, s, units)
	if err != nil {
		return nil, unsupported(fmt.Errorf("section %s: %w", name, err))
	}
	w.add(units)
	return func() elfedit.Change {
		layout := layFatbinaries(units)
		c := elfedit.Change{Section: section, Align: max(s.Align, 8), Parts: layout.Parts, Size: uint64(layout.Size), Slots: make(map[uint64]uint64), Move: mover(units)}
		for slot, u := range slots {
			c.Slots[slot] = uint64(u.newAt)
		}
		return c
	}, nil
}

// cudaSlots returns the addresses of the pointers in wrappers to a section, with the
// fatbinaries that they point to. Programs at fixed addresses have pointers without
// relocations, so that each fatbinary must have a wrapper there.
func cudaSlots(f *elfedit.File, s *elfedit.Section, units []*unit) (map[uint64]*unit, error) {
	wrappers, err := cudaWrappers(f)
	if err != nil {
		return nil, err
	}
	starts := make(map[uint64]*unit)
	for _, u := range units {
		starts[s.Addr+uint64(u.at)] = u
	}
	slots, found := make(map[uint64]*unit), make(map[*unit]bool)
	for i, wrapper := range wrappers {
		u, ok := starts[wrapper.Target]
		switch {
		case ok:
			slots[wrapper.Addr+8], found[u] = u, true
		case wrapper.Target >= s.Addr && wrapper.Target-s.Addr < s.Size:
			return nil, fmt.Errorf("wrapper %d: points to address 0x%x, where no CUDA fatbinary begins", i, wrapper.Target)
		}
	}
	if len(slots) == 0 {
		return nil, fmt.Errorf("no wrapper in section %s points to it", embedding.CUDAWrappers)
	}
	if f.Type == elf.EtExec && len(found) < len(units) {
		return nil, errors.New("a fatbinary has no wrapper, so that it is unknown what points to it; link the program with -pie")
	}
	return slots, nil
}
