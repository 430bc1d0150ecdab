package elfedit

import (
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

	record uint64 // file offset of the relocation
	symbol symbol
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
		for rel := range f.relas(s.Offset, s.InFile()) {
			if uint64(rel.symbol) >= count {
				return fmt.Errorf("section %s: relocation at byte 0x%x: symbol %d does not exist", s.Name, rel.at, rel.symbol)
			}
			sym := f.symbolAt(symtab.Offset + uint64(rel.symbol)*elf.SymbolSize)
			section := int(sym.section)
			if section == elf.ShnUndef || section >= min(elf.ShnLoReserve, len(f.Sections)) {
				continue
			}
			form, _ := f.form(rel.typ)
			r := Reference{
				From: Place{int(s.Info), rel.slot}, To: Place{section, sym.value + rel.addend},
				Direct: form == Symbolic, record: rel.at, symbol: sym,
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
			if now := goal - c.objectSymbol(r.symbol); now != r.To.Offset-r.symbol.value {
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
		for sym := range p.symbolsOf(s) {
			for _, c := range p.changes {
				if c.Section == int(sym.section) {
					p.moveSymbol(sym, c.objectSymbol(sym), c.Size)
				}
			}
		}
	}
	return nil
}

// objectSymbol returns the new value of a symbol in the changed section.
func (c *change) objectSymbol(sym symbol) uint64 {
	switch {
	case sym.kind == elf.TypeSection:
		return sym.value
	case sym.value == c.old:
		return c.Size
	}
	moved, _ := c.Move(sym.value)
	return min(moved, c.Size)
}
