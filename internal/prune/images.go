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
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// openBundles finds the adjacent bundles in a file.
func (w *Work) openBundles(ctx context.Context) error {
	w.format = "bundle"
	units, err := consecutive(ctx, w.in, &w.opt)
	if err != nil {
		return err
	}
	w.add(units)
	align := uint64(4096)
	for _, u := range units {
		align = min(align, alignment(uint64(u.at)))
	}
	w.build = func() (*elfedit.Layout, error) { return lay(units, align), nil }
	return nil
}

// consecutive returns the adjacent bundles from the start of c.
func consecutive(ctx context.Context, c content.Content, o *Options) ([]*unit, error) {
	var units []*unit
	for extent, err := range ccob.Walk(c.Bytes(), bundle.End) {
		if err != nil {
			return nil, err
		}
		u, err := openBundle(ctx, c, extent.Offset, extent.End, o)
		if err != nil {
			return nil, fmt.Errorf("bundle at byte 0x%x: %w", extent.Offset, err)
		}
		units = append(units, u)
	}
	if len(units) == 0 {
		return nil, ErrNoDeviceCode
	}
	return units, nil
}

// lay returns the layout of a file with consecutive units.
func lay(units []*unit, align uint64) *elfedit.Layout {
	p := &elfedit.Layout{}
	for _, u := range units {
		if u.size == 0 {
			u.newAt = p.Size
			continue
		}
		u.newAt = int64(roundUp(uint64(p.Size), align))
		p.Parts = u.appendTo(p.Parts, u.newAt)
		p.Size = u.newAt + u.size
	}
	return p
}

// maxInflated limits the uncompressed size of the compressed packages of a
// file, in bytes.
const maxInflated = 1 << 30

// offloadBinaries returns the adjacent offload binaries in c. Memory for inflated ones is reserved
// until Close.
func (w *Work) offloadBinaries(ctx context.Context, c content.Content) ([]*unit, error) {
	var units []*unit
	allowed := offloadbinary.UpTo(maxInflated)
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
		u := &unit{at: p.Offset, stored: c.Slice(p.Offset, p.Size), pack: p, size: p.Size, compressed: false}
		for i := range p.Images {
			img := &p.Images[i]
			u.entries = append(u.entries, imageEntry(img.Get("triple"), img.Get("arch"), img.Content.Len()))
		}
		units = append(units, u)
	}
	return units, nil
}

// openOffloadBinaries finds the images in a file of offload binaries.
func (w *Work) openOffloadBinaries(ctx context.Context) error {
	w.format = "offload-binary"
	units, err := w.offloadBinaries(ctx, w.in)
	if err != nil {
		return err
	}
	w.add(units)
	w.build = func() (*elfedit.Layout, error) { return lay(units, offloadbinary.Align), nil }
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

// newRange returns the new range of the image. A dropped image is empty.
func (r *imageRange) newRange() (start, end uint64) {
	e := &r.unit.entries[r.image]
	if e.drop {
		return 0, 0
	}
	if r.unit.imageAt != nil {
		start = uint64(r.unit.newAt + r.unit.imageAt[r.image])
	} else {
		start = uint64(r.unit.newAt) + r.start - uint64(r.unit.at)
	}
	size := r.size
	if e.replacement != nil {
		size = uint64(e.replacement.Content.Len())
	}
	return start, start + size
}

// openOpenMP finds the images of OpenMP through records with their starts and ends.
func (w *Work) openOpenMP(ctx context.Context, f *elfedit.File) (func() elfedit.Change, error) {
	section, err := f.Section(embedding.OffloadSection)
	if err != nil || section < 0 {
		return nil, err
	}
	s := &f.Sections[section]
	if s.InFile() == 0 || s.Flags&elf.ShfAlloc == 0 {
		return nil, nil
	}
	body := f.Content(section)
	units, err := w.offloadBinaries(ctx, body)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	var images []imageRange
	for _, u := range units {
		u.section = s.Name
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
	w.add(units)
	return func() elfedit.Change {
		layout := lay(units, offloadbinary.Align)
		c := elfedit.Change{Section: section, Align: max(s.Align, 8), Parts: layout.Parts, Size: uint64(layout.Size), Slots: make(map[uint64]uint64), Move: mover(units)}
		for slot, image := range records {
			start, end := images[image].newRange()
			c.Slots[slot], c.Slots[slot+8] = start, end
		}
		return c
	}, nil
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
		data := f.Content(i).Bytes()
		for at := (8 - t.Addr%8) % 8; at+16 <= uint64(len(data)); at += 8 {
			value := binary.LittleEndian.Uint64(data[at:])
			if i, ok := starts[value]; ok && binary.LittleEndian.Uint64(data[at+8:]) == value+images[i].size {
				records[t.Addr+at] = i
			}
		}
	}
	return records, nil
}
