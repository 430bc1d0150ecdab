package prune

import (
	"cmp"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
)

// region is a section or file with units, and the pointers to them.
type region struct {
	section int
	base    uint64  // its address
	align   uint64  // of the section, if it moves
	grain   uint64  // alignment of all units; 0: that of the old address of each
	units   []*unit // in the order of the region
	order   []*unit // see Work.order; nil: units
	slots   map[elfedit.Place]goal
}

// goal returns the offset in the new region that a pointer gets.
type goal func() uint64

// goal returns the start of the unit.
func (u *unit) goal() uint64 { return uint64(u.newAt) }

// add adds the units of a region to the work.
func (w *Work) add(r *region) {
	w.units = append(w.units, r.units...)
	if r.order == nil {
		r.order = r.units
	}
	w.order = append(w.order, r.order...)
}

// alignAlike gives all units the smallest alignment of their old places, at most most.
func (r *region) alignAlike(most uint64) {
	r.grain = most
	for _, u := range r.units {
		r.grain = min(r.grain, alignment(uint64(u.at)))
	}
}

// layout places the units one after the other.
func (r *region) layout() (*elfedit.Layout, error) {
	p := &elfedit.Layout{}
	for _, u := range r.units {
		if u.newAt = p.Size; u.size > 0 {
			align := cmp.Or(r.grain, alignment(r.base+uint64(u.at)))
			u.newAt = int64(roundUp(r.base+uint64(p.Size), align) - r.base)
			p.Parts = u.appendTo(p.Parts, u.newAt)
			p.Size = u.newAt + u.size
		}
	}
	return p, nil
}

// changes returns the changes of the sections of an ELF file.
func changes(regions []*region) (list []elfedit.Change) {
	for _, r := range regions {
		p, _ := r.layout()
		c := elfedit.Change{Section: r.section, Align: r.align, Parts: p.Parts, Size: uint64(p.Size), Slots: make(map[elfedit.Place]uint64), Move: r.move}
		for slot, goal := range r.slots {
			c.Slots[slot] = goal()
		}
		list = append(list, c)
	}
	return list
}

// find returns the number of the first unit at or after an old offset, and whether it begins there.
func (r *region) find(offset int64) (int, bool) {
	return slices.BinarySearchFunc(r.units, offset, func(u *unit, at int64) int { return cmp.Compare(u.at, at) })
}

// move maps an old offset to the new one, see elfedit.Change.
func (r *region) move(offset uint64) (moved uint64, exact bool) {
	i, found := r.find(int64(offset))
	switch {
	case found:
		return uint64(r.units[i].newAt), true
	case i == 0:
		return 0, offset == 0
	}
	u := r.units[i-1]
	inside := int64(offset) - u.at
	if inside >= u.stored.Len() && i < len(r.units) {
		return uint64(r.units[i].newAt), false
	}
	return uint64(u.newAt + min(inside, u.size)), false
}

// appendTo appends the new content of the unit, which is at an offset, to parts.
func (u *unit) appendTo(parts []content.Part, at int64) []content.Part {
	for _, part := range u.parts {
		parts = append(parts, content.Part{Offset: at + part.Offset, Content: part.Content})
	}
	return parts
}

// alignment returns the alignment of an address, at most 4096.
func alignment(addr uint64) uint64 {
	addr |= 4096
	return addr & -addr
}

func roundUp(n, align uint64) uint64 { return (n + align - 1) / align * align }
