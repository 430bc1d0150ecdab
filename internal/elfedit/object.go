package elfedit

import (
	"encoding/binary"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// ParseObject reads the headers of a relocatable 64-bit little-endian ELF file.
func ParseObject(in content.Content) (*File, error) {
	f, err := parse(in)
	if err != nil {
		return nil, err
	}
	if f.Type != elf.EtRel {
		return nil, fmt.Errorf("ELF type %d: expected a relocatable object", f.Type)
	}
	return f, f.readSections()
}

// Place is an offset in a section of an object or, with section 0, an address in a linked file.
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

// References calls visit with every relocation with an addend whose symbol the relocatable
// object defines in a section.
func (f *File) References(visit func(Reference) error) error {
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.ShtRela || uint64(s.Link) >= uint64(len(f.Sections)) {
			continue
		}
		symtab := &f.Sections[s.Link]
		count := symtab.InFile() / elf.SymbolSize
		for at, end := s.Offset, s.Offset+s.InFile(); at < end && end-at >= elf.RelaSize; at += elf.RelaSize {
			info := binary.LittleEndian.Uint64(f.data[at+8:])
			if info>>32 >= count {
				return fmt.Errorf("section %s: relocation at byte 0x%x: symbol %d does not exist", s.Name, at, info>>32)
			}
			symbol := symtab.Offset + info>>32*elf.SymbolSize
			section := int(binary.LittleEndian.Uint16(f.data[symbol+6:]))
			if section == elf.ShnUndef || section >= min(elf.ShnLoReserve, len(f.Sections)) {
				continue
			}
			form, _ := f.form(uint32(info))
			r := Reference{
				From:   Place{int(s.Info), binary.LittleEndian.Uint64(f.data[at:])},
				To:     Place{section, binary.LittleEndian.Uint64(f.data[symbol+8:]) + binary.LittleEndian.Uint64(f.data[at+16:])},
				Direct: form == Symbolic, record: at, symbol: symbol,
			}
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// largestAlignment returns the largest alignment of a section, at least 8.
func (f *File) largestAlignment() uint64 {
	most := uint64(8)
	for i := range f.Sections {
		if a := f.Sections[i].Align; a&(a-1) == 0 && a <= 1<<16 {
			most = max(most, a)
		}
	}
	return most
}

// placeInObject is place for relocatable objects, in which all bytes can move.
func (p *planner) placeInObject() error {
	for i := range p.edit.Changes {
		c := &change{Change: &p.edit.Changes[i]}
		s := &p.Sections[c.Section]
		if s.InFile() == 0 {
			return fmt.Errorf("section %s has no contents in the file", s.Name)
		}
		if err := p.alone(c.Section); err != nil {
			return err
		}
		c.addr, c.off, c.old, c.cut = s.Addr, s.Offset, s.Size, s.Offset+s.Size
		c.keep, c.insert = c.Size, c.Size > c.old
		c.close(p.page)
		p.changes = append(p.changes, c)
	}
	p.sortChanges()
	return nil
}

// references updates relocations that refer to changed sections.
func (p *planner) references() error {
	return p.References(func(r Reference) error {
		for _, c := range p.changes {
			if r.To.Section != c.Section {
				continue
			}
			goal, explicit := c.Slots[r.From]
			if !explicit {
				var exact bool
				if goal, exact = c.Move(r.To.Offset); !exact || !r.Direct && goal != r.To.Offset {
					return fmt.Errorf("relocation at byte 0x%x of section %d: it points to byte 0x%x of section %s, where no device code begins", r.From.Offset, r.From.Section, r.To.Offset, p.Sections[c.Section].Name)
				}
			}
			value := binary.LittleEndian.Uint64(p.data[r.symbol+8:])
			if now := goal - p.objectSymbol(c, r.symbol, value); now != r.To.Offset-value {
				p.patch(r.record+16, now)
			}
		}
		return nil
	})
}

// objectSymbols updates the symbols in changed sections.
func (p *planner) objectSymbols() error {
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Type != elf.ShtSymtab {
			continue
		}
		for at, end := s.Offset, s.Offset+s.InFile(); at < end && end-at >= elf.SymbolSize; at += elf.SymbolSize {
			for _, c := range p.changes {
				if c.Section == int(binary.LittleEndian.Uint16(p.data[at+6:])) {
					p.moveObjectSymbol(c, at)
				}
			}
		}
	}
	return nil
}

// objectSymbol returns the new value of a symbol in a changed section.
func (p *planner) objectSymbol(c *change, at, value uint64) uint64 {
	switch {
	case p.data[at+4]&15 == elf.TypeSection:
		return value
	case value == c.old:
		return c.Size
	}
	moved, _ := c.Move(value)
	return min(moved, c.Size)
}

// moveObjectSymbol updates the symbol at an offset, which is in a changed section.
func (p *planner) moveObjectSymbol(c *change, at uint64) {
	value, size := binary.LittleEndian.Uint64(p.data[at+8:]), binary.LittleEndian.Uint64(p.data[at+16:])
	moved := p.objectSymbol(c, at, value)
	if moved != value {
		p.patch(at+8, moved)
	}
	if room := c.Size - min(moved, c.Size); size > room {
		p.patch(at+16, room)
	}
}
