package prune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// fatbinaries returns the adjacent CUDA fatbinaries in c.
func fatbinaries(ctx context.Context, c content.Content, section string, o *Options) (*region, error) {
	r := &region{}
	for f, err := range cubin.Fatbinaries(c.Mapped(guard.Inside)) {
		if err != nil {
			return nil, err
		}
		u := &unit{at: f.Offset, stored: c.Slice(f.Offset, f.Size), section: section, size: f.Size, fatbinary: true}
		images, err := cubin.Images(u.stored.Mapped(guard.Inside))
		if err != nil {
			return nil, fmt.Errorf("fatbinary at byte 0x%x: %w", f.Offset, err)
		}
		for _, image := range images {
			e := imageEntry("nvptx64-nvidia-cuda", image.Arch, image.Size)
			e.offset = image.Offset
			u.entries = append(u.entries, e)
		}
		if err := o.memory.hold(ctx, u); err != nil {
			return nil, err
		}
		r.units = append(r.units, u)
	}
	r.alignAlike(8)
	return r, nil
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
	out.add(content.Memory(cubin.NewHeader(u.stored.Mapped(guard.Inside), size)))
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
func (w *Work) otherVendor() bool {
	cuda := func(name string) bool {
		return strings.HasPrefix(name, "sm_") || strings.HasPrefix(name, "compute_") || strings.HasPrefix(name, "nvptx")
	}
	return len(w.opt.Keep) > 0 && !slices.ContainsFunc(w.opt.Keep, cuda) &&
		!slices.ContainsFunc(w.units, func(u *unit) bool { return !u.fatbinary })
}

// openFatbinaries finds the images in a file of CUDA fatbinaries.
func (w *Work) openFatbinaries(ctx context.Context) error {
	w.format = "fatbinary"
	r, err := fatbinaries(ctx, w.in, "", &w.opt)
	if err != nil {
		return err
	}
	w.add(r)
	w.build = r.layout
	return nil
}

// cudaWrappers returns the records of a linked file that point to fatbinaries.
func cudaWrappers(f *elfedit.File) ([]registered.Wrapper, error) {
	s, data, err := loadedSection(f, embedding.CUDAWrappers)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var all []registered.Wrapper
	for at := (8 - s.Addr%8) % 8; uint64(len(data)) >= embedding.RecordSize && at <= uint64(len(data))-embedding.RecordSize; at += 8 {
		b := data[at:]
		if binary.LittleEndian.Uint32(b) != embedding.MagicCUDA {
			continue
		}
		if version := binary.LittleEndian.Uint32(b[4:]); version != 1 && f.Type == elf.EtExec {
			return nil, fmt.Errorf("section %s: found a wrapper of version %d, expected version 1 in a program at fixed addresses; link it with -pie", s.Name, version)
		}
		all = append(all, registered.Wrapper{Addr: s.Addr + at, Record: embedding.Record{Target: binary.LittleEndian.Uint64(b[8:])}})
		at += embedding.RecordSize - 8
	}
	return all, relocate(f, all)
}

// relocate sets the targets of wrappers whose pointers the loader relocates.
func relocate(f *elfedit.File, all []registered.Wrapper) error {
	index := make(map[uint64]*registered.Wrapper)
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

// linkedCUDA finds the fatbinaries of a linked file in one of the sections for them.
func (w *Work) linkedCUDA(ctx context.Context, f *elfedit.File, section int) (*region, error) {
	s := &f.Sections[section]
	name := string(s.Name)
	r, err := fatbinaries(ctx, f.Content(section), name, &w.opt)
	if err == nil {
		r.section, r.align = section, max(s.Align, 8)
		err = r.findCUDASlots(f, s)
	}
	if err != nil {
		return nil, unsupported(fmt.Errorf("section %s: %w", name, err))
	}
	return r, nil
}

// findCUDASlots finds the pointers in wrappers to the fatbinaries of a section. Programs at
// fixed addresses have pointers without relocations, so that each fatbinary must have a
// wrapper there.
func (r *region) findCUDASlots(f *elfedit.File, s *elfedit.Section) error {
	wrappers, err := cudaWrappers(f)
	if err != nil {
		return err
	}
	r.slots = make(map[elfedit.Place]goal)
	found := make(map[*unit]bool)
	for i, wrapper := range wrappers {
		if wrapper.Target < s.Addr || wrapper.Target-s.Addr >= s.Size {
			continue
		}
		n, ok := r.find(int64(wrapper.Target - s.Addr))
		if !ok {
			return fmt.Errorf("wrapper %d: points to address 0x%x, where no CUDA fatbinary begins", i, wrapper.Target)
		}
		r.slots[elfedit.Place{Offset: wrapper.Addr + 8}], found[r.units[n]] = r.units[n].goal, true
	}
	if len(r.slots) == 0 {
		return fmt.Errorf("no wrapper in section %s points to it", embedding.CUDAWrappers)
	}
	if f.Type == elf.EtExec && len(found) < len(r.units) {
		return errors.New("a fatbinary has no wrapper, so that it is unknown what points to it; link the program with -pie")
	}
	return nil
}
