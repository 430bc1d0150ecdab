package prune

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// openBundles finds the adjacent bundles in a file.
func (w *Work) openBundles(ctx context.Context) error {
	w.format = "bundle"
	r, err := consecutive(ctx, w.in, "", &w.opt)
	if err != nil {
		return err
	}
	w.add(r)
	r.alignAlike(4096)
	w.build = r.layout
	return nil
}

// consecutive returns the adjacent bundles from the start of c.
func consecutive(ctx context.Context, c content.Content, section string, o *Options) (*region, error) {
	r := &region{}
	for extent, err := range ccob.Walk(c.Mapped(guard.Inside), bundle.End) {
		if err != nil {
			return nil, err
		}
		u, err := openBundle(ctx, c, extent.Offset, extent.End, o)
		if err != nil {
			return nil, fmt.Errorf("bundle at byte 0x%x: %w", extent.Offset, err)
		}
		u.section = section
		r.units = append(r.units, u)
	}
	if len(r.units) == 0 {
		return nil, ErrNoDeviceCode
	}
	return r, nil
}

// offloadBinaries returns the adjacent offload binaries in c. Memory for inflated ones is reserved
// until Close.
func (w *Work) offloadBinaries(ctx context.Context, c content.Content, section string) (*region, error) {
	r := &region{grain: offloadbinary.Align}
	allowed := offloadbinary.UpTo(limits.Inflated)
	inflate := func(size int64) (bool, error) {
		if ok, err := allowed(size); !ok {
			return false, err
		}
		memory, err := w.opt.Budget.Reserve(ctx, size)
		if err != nil {
			return false, err
		}
		w.release = append(w.release, memory.Release)
		return true, nil
	}
	for p, err := range offloadbinary.Parse(c, offloadbinary.Options{Inflate: inflate}) {
		if err != nil {
			return nil, err
		}
		if p.NotInflated {
			return nil, fmt.Errorf("offload binary at byte 0x%x: inflates to 0x%x bytes, more than fit", p.Offset, p.Inflated)
		}
		u := &unit{at: p.Offset, stored: c.Slice(p.Offset, p.Size), section: section, pack: p, size: p.Size}
		for i := range p.Images {
			img := &p.Images[i]
			u.entries = append(u.entries, imageEntry(img.Get("triple"), img.Get("arch"), img.Content.Len()))
		}
		if err := w.opt.memory.hold(ctx, u); err != nil {
			return nil, err
		}
		r.units = append(r.units, u)
	}
	return r, nil
}

// openOffloadBinaries finds the images in a file of offload binaries.
func (w *Work) openOffloadBinaries(ctx context.Context) error {
	w.format = "offload-binary"
	r, err := w.offloadBinaries(ctx, w.in, "")
	if err != nil {
		return err
	}
	w.add(r)
	w.build = r.layout
	return nil
}

// imageRange is the range of an image in the old and the new content of a
// section.
type imageRange struct {
	unit  *unit
	image int
	start uint64 // in the section
	size  uint64
}

// newStart returns the new start of the image. Start and end of a dropped image are 0.
func (r *imageRange) newStart() uint64 {
	switch {
	case r.unit.entries[r.image].drop:
		return 0
	case r.unit.imageAt != nil:
		return uint64(r.unit.newAt + r.unit.imageAt[r.image])
	}
	return uint64(r.unit.newAt) + r.start - uint64(r.unit.at)
}

// newEnd returns the new end of the image.
func (r *imageRange) newEnd() uint64 {
	switch e := &r.unit.entries[r.image]; {
	case e.drop:
		return 0
	case e.replacement != nil:
		return r.newStart() + uint64(e.replacement.Content.Len())
	}
	return r.newStart() + r.size
}

// openOpenMP finds the images of OpenMP through records with their starts and ends.
func (w *Work) openOpenMP(ctx context.Context, f *elfedit.File, section int) (*region, error) {
	s := &f.Sections[section]
	if s.Flags&elf.ShfAlloc == 0 {
		return nil, nil
	}
	r, err := w.offloadBinaries(ctx, f.Content(section), string(s.Name))
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	var images []imageRange
	for _, u := range r.units {
		if u.pack.Inflated != 0 {
			continue // its images are not in the section
		}
		for i := range u.pack.Images {
			images = append(images, imageRange{u, i, uint64(u.pack.Images[i].Offset), uint64(u.pack.Images[i].Content.Len())})
		}
	}
	records, err := imageRecords(f, section, images)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("section %s: no record points to its images", s.Name)
	}
	r.section, r.align, r.slots = section, max(s.Align, 8), make(map[elfedit.Place]goal)
	for slot, i := range records {
		r.slots[elfedit.Place{Offset: slot}], r.slots[elfedit.Place{Offset: slot + 8}] = images[i].newStart, images[i].newEnd
	}
	return r, nil
}

// imageRecords returns the addresses of records of OpenMP, and the image of each.
func imageRecords(f *elfedit.File, section int, images []imageRange) (map[uint64]int, error) {
	s := &f.Sections[section]
	starts := make(map[uint64]int)
	for i := range images {
		if images[i].size > 0 {
			starts[s.Addr+images[i].start] = i
		}
	}
	pointers := make(map[uint64]uint64)
	err := f.Pointers(func(p elfedit.Pointer) error {
		if p.Value >= s.Addr && p.Value-s.Addr <= s.Size {
			pointers[p.Slot] = p.Value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	records := make(map[uint64]int)
	for slot, value := range pointers {
		if i, ok := starts[value]; ok && pointers[slot+8] == value+images[i].size {
			records[slot] = i
		}
	}
	if f.Type != elf.EtExec {
		return records, nil
	}
	// Programs at fixed addresses have pointers without relocations.
	for i := range f.Sections {
		t := &f.Sections[i]
		if t.Flags&elf.ShfAlloc == 0 || t.Flags&elf.ShfExec != 0 || t.InFile() < 16 || i == section || t.Type != elf.ShtProgbits {
			continue
		}
		data := f.Content(i).Mapped(guard.Inside)
		for at := (8 - t.Addr%8) % 8; at+16 <= uint64(len(data)); at += 8 {
			value := binary.LittleEndian.Uint64(data[at:])
			if i, ok := starts[value]; ok && binary.LittleEndian.Uint64(data[at+8:]) == value+images[i].size {
				records[t.Addr+at] = i
			}
		}
	}
	return records, nil
}
