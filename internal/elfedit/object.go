package elfedit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// Object is a relocatable ELF file.
type Object struct{ File }

// ParseObject reads the headers of a relocatable 64-bit little-endian ELF file.
func ParseObject(in content.Content) (*Object, error) {
	data := in.Bytes()
	if !Is(data) || len(data) < elf.HeaderSize {
		return nil, fmt.Errorf("not an ELF file: found %d bytes without an ELF header", len(data))
	}
	if data[4] != 2 || data[5] != 1 {
		return nil, fmt.Errorf("ELF class %d, byte order %d: expected a 64-bit little-endian file", data[4], data[5])
	}
	o := &Object{File{in: in, data: data, Type: binary.LittleEndian.Uint16(data[16:]), Machine: binary.LittleEndian.Uint16(data[18:])}}
	if o.Type != elf.EtRel {
		return nil, fmt.Errorf("ELF type %d: expected a relocatable object", o.Type)
	}
	return o, o.readSections()
}

// Place is an offset in a section of an object.
type Place struct {
	Section int
	Offset  uint64
}

// Reference is a relocation against a symbol.
type Reference struct {
	From   Place
	To     Place // its target; Section is 0 if the object does not define it
	Direct bool  // it stores the absolute address in 8 bytes

	record uint64
	symbol uint64 // file offset
}

// References calls visit with every relocation with an addend whose symbol the object
// defines in a section.
func (o *Object) References(visit func(Reference) error) error {
	for i := range o.Sections {
		s := &o.Sections[i]
		if s.Type != elf.ShtRela || uint64(s.Link) >= uint64(len(o.Sections)) {
			continue
		}
		symtab := &o.Sections[s.Link]
		count := symtab.InFile() / elf.SymbolSize
		for at, end := s.Offset, s.Offset+s.InFile(); at < end && end-at >= elf.RelaSize; at += elf.RelaSize {
			info := binary.LittleEndian.Uint64(o.data[at+8:])
			if info>>32 >= count {
				return fmt.Errorf("section %s: relocation at byte 0x%x: symbol %d does not exist", s.Name, at, info>>32)
			}
			symbol := symtab.Offset + info>>32*elf.SymbolSize
			section := int(binary.LittleEndian.Uint16(o.data[symbol+6:]))
			if section == elf.ShnUndef || section >= min(elf.ShnLoReserve, len(o.Sections)) {
				continue
			}
			form, _ := o.form(uint32(info))
			r := Reference{
				From:   Place{int(s.Info), binary.LittleEndian.Uint64(o.data[at:])},
				To:     Place{section, binary.LittleEndian.Uint64(o.data[symbol+8:]) + binary.LittleEndian.Uint64(o.data[at+16:])},
				Direct: form == Symbolic, record: at, symbol: symbol,
			}
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// ObjectChange replaces the content of a section of an object.
type ObjectChange struct {
	Section int
	Parts   []content.Part
	Size    uint64
	Slots   map[Place]uint64 // as Change.Slots
	Move    func(offset uint64) (moved uint64, exact bool)
}

// Layout computes the object with changes.
func (o *Object) Layout(changes []ObjectChange) (*Layout, error) {
	slices.SortFunc(changes, func(a, b ObjectChange) int {
		return cmp.Compare(o.Sections[a.Section].Offset, o.Sections[b.Section].Offset)
	})
	page := uint64(8)
	for i := range o.Sections {
		if a := o.Sections[i].Align; a&(a-1) == 0 && a <= 1<<16 {
			page = max(page, a)
		}
	}
	p := &planner{File: &o.File, page: page}
	for i := range changes {
		c := &changes[i]
		s := &o.Sections[c.Section]
		if s.InFile() == 0 {
			return nil, fmt.Errorf("section %s has no contents in the file", s.Name)
		}
		if err := p.alone(c.Section); err != nil {
			return nil, err
		}
		d := &change{Change: &Change{Section: c.Section, Parts: c.Parts, Size: c.Size, Move: c.Move}, off: s.Offset, old: s.Size, cut: s.Offset + s.Size, keep: c.Size}
		end := s.Offset + c.Size
		if end <= d.cut {
			d.closed = int64((d.cut - end) / page * page)
		} else {
			d.closed = -int64(roundUp(end-d.cut, page))
		}
		p.changes = append(p.changes, d)
	}
	before := int64(0)
	for _, c := range p.changes {
		c.newOff = uint64(int64(c.off) - before)
		before += c.closed
	}
	p.sections = slices.Clone(p.Sections)
	for i := range p.sections {
		p.sections[i].Offset = p.shift(p.sections[i].Offset)
	}
	for _, c := range p.changes {
		p.sections[c.Section].Offset, p.sections[c.Section].Size = c.newOff, c.Size
	}
	if err := o.moveReferences(p, changes); err != nil {
		return nil, err
	}
	p.objectSymbols()
	return p.writeObject()
}

// moveReferences updates relocations that refer to changed sections.
func (o *Object) moveReferences(p *planner, changes []ObjectChange) error {
	return o.References(func(r Reference) error {
		for i := range changes {
			c := &changes[i]
			if r.To.Section != c.Section {
				continue
			}
			goal, explicit := c.Slots[r.From]
			if !explicit {
				var exact bool
				if goal, exact = c.Move(r.To.Offset); !exact || !r.Direct && goal != r.To.Offset {
					return fmt.Errorf("relocation at byte 0x%x of section %d: it points to byte 0x%x of section %s, where no device code begins", r.From.Offset, r.From.Section, r.To.Offset, o.Sections[c.Section].Name)
				}
			}
			value := binary.LittleEndian.Uint64(o.data[r.symbol+8:])
			now := goal - p.objectSymbol(c, r.symbol, value)
			if now != r.To.Offset-value {
				p.patch(r.record+16, now)
			}
		}
		return nil
	})
}

// objectSymbol returns the new value of a symbol in a changed section.
func (p *planner) objectSymbol(c *ObjectChange, at, value uint64) uint64 {
	old := p.Sections[c.Section].Size
	switch {
	case p.data[at+4]&15 == elf.TypeSection:
		return value
	case value == old:
		return c.Size
	}
	moved, _ := c.Move(value)
	return min(moved, c.Size)
}

func (p *planner) objectSymbols() {
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Type != elf.ShtSymtab {
			continue
		}
		for at, end := s.Offset, s.Offset+s.InFile(); at < end && end-at >= elf.SymbolSize; at += elf.SymbolSize {
			section := int(binary.LittleEndian.Uint16(p.data[at+6:]))
			for _, c := range p.changes {
				if c.Section != section {
					continue
				}
				value, size := binary.LittleEndian.Uint64(p.data[at+8:]), binary.LittleEndian.Uint64(p.data[at+16:])
				moved := p.objectSymbol(&ObjectChange{Section: section, Size: c.Size, Move: c.Move}, at, value)
				if moved != value {
					p.patch(at+8, moved)
				}
				if room := c.Size - min(moved, c.Size); size > room {
					p.patch(at+16, room)
				}
			}
		}
	}
}

func (p *planner) writeObject() (*Layout, error) {
	var parts []content.Part
	header := bytes.Clone(p.data[:elf.HeaderSize])
	table := p.shift(p.shoff)
	binary.LittleEndian.PutUint64(header[40:], table)
	parts = append(parts, content.Part{Content: content.Memory(header)}, content.Part{Offset: int64(table), Content: content.Memory(p.sectionTable())})
	for _, c := range p.changes {
		for _, part := range c.Parts {
			parts = append(parts, content.Part{Offset: int64(c.newOff) + part.Offset, Content: part.Content})
		}
	}
	if err := p.sortPatches(); err != nil {
		return nil, err
	}
	size := uint64(len(p.data))
	for _, r := range p.kept(size, 0) {
		parts = p.copied(parts, r[0], r[1], p.shift(r[0]))
	}
	parts = slices.DeleteFunc(parts, func(part content.Part) bool { return part.Content.Len() == 0 })
	end, err := inOrder(parts)
	if err != nil {
		return nil, err
	}
	return &Layout{Parts: parts, Size: max(end, int64(p.shift(size)))}, nil
}
