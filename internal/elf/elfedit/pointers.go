package elfedit

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Form is the way in which the loader computes the value of a pointer.
type Form uint8

// The forms of pointers.
const (
	Plain    Form = iota // the value in the file
	Relative             // RELA: the addend
	Symbolic             // RELA: the value of a symbol and an addend
	Packed               // RELR: the value in the file
	Unknown              // a relocation whose value is not computed here
)

// Pointer is a pointer in the loaded file that the loader relocates.
type Pointer struct {
	Slot  uint64 // its address
	Value uint64 // the address that it points to
	Form  Form

	record uint64 // file offset of the relocation
	symbol symbol // of Symbolic; the zero value for the null symbol
}

// relocation types
const (
	x8664Abs64       = 1
	x8664Copy        = 5
	x8664Relative    = 8
	x8664IRelative   = 37
	x8664Relative64  = 38
	aarch64Abs64     = 257
	aarch64Relative  = 1027
	aarch64IRelative = 1032
)

// form returns the form of a relocation type, and reports whether it is an address.
func (f *File) form(typ uint32) (Form, bool) {
	if f.Machine == elf.MachineAArch64 {
		switch typ {
		case aarch64Relative:
			return Relative, true
		case aarch64Abs64:
			return Symbolic, true
		case aarch64IRelative:
			return Unknown, true
		}
		return 0, false
	}
	switch typ {
	case x8664Relative:
		return Relative, true
	case x8664Abs64:
		return Symbolic, true
	case x8664IRelative, x8664Relative64:
		return Unknown, true
	}
	return 0, false
}

// rela is a relocation with an addend.
type rela struct {
	at, slot    uint64 // its offset in the file, and the place that it changes
	typ, symbol uint32
	addend      uint64
}

// relas returns the relocations in a range of the file.
func (f *File) relas(at, size uint64) iter.Seq[rela] {
	return func(yield func(rela) bool) {
		for end := at + size; end-at >= elf.RelaSize && at < end; at += elf.RelaSize {
			b := f.data[at : at+elf.RelaSize]
			r := rela{at: at, slot: binary.LittleEndian.Uint64(b), addend: binary.LittleEndian.Uint64(b[16:])}
			if r.typ, r.symbol = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:]); !yield(r) {
				return
			}
		}
	}
}

// dynamicRelas returns the relocations with addends that the loader applies. An error ends the
// sequence.
func (f *File) dynamicRelas() iter.Seq2[rela, error] {
	return func(yield func(rela, error) bool) {
		for _, t := range [...]struct{ at, size uint64 }{{elf.DtRela, elf.DtRelaSize}, {elf.DtJmpRel, elf.DtPltSize}} {
			at, size, err := f.table(t.at, t.size)
			if err != nil {
				yield(rela{}, err)
				return
			}
			for r := range f.relas(at, size) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// symbol is an entry of a symbol table.
type symbol struct {
	at      uint64 // its offset in the file
	kind    byte
	section uint64 // as stored
	value   uint64
	size    uint64
}

// symbolAt returns the symbol at an offset of the file.
func (f *File) symbolAt(at uint64) symbol {
	b := f.data[at : at+elf.SymbolSize]
	return symbol{at, b[4] & 15, uint64(binary.LittleEndian.Uint16(b[6:])), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
}

// symbolsOf returns the symbols of a table.
func (f *File) symbolsOf(table *Section) iter.Seq[symbol] {
	return func(yield func(symbol) bool) {
		for at, end := table.Offset, table.Offset+table.InFile(); end-at >= elf.SymbolSize && at < end; at += elf.SymbolSize {
			if !yield(f.symbolAt(at)) {
				return
			}
		}
	}
}

// Pointers calls visit with every relocated pointer of the loaded file, in the order
// of the tables. Undefined symbols have the value 0.
func (f *File) Pointers(visit func(Pointer) error) error {
	if kind, ok := f.tag(elf.DtPltRel); ok && kind != elf.DtRela {
		return fmt.Errorf("dynamic tag DT_PLTREL: found %d, expected %d: relocations without addends are not supported", kind, elf.DtRela)
	}
	symtab, haveSymbols := f.tag(elf.DtSymtab)
	for r, err := range f.dynamicRelas() {
		if err != nil {
			return err
		}
		form, isAddress := f.form(r.typ)
		if !isAddress {
			continue
		}
		p := Pointer{Slot: r.slot, Value: r.addend, Form: form, record: r.at}
		if form == Symbolic && r.symbol != 0 {
			off, ok := f.Offset(symtab+uint64(r.symbol)*elf.SymbolSize, elf.SymbolSize)
			if !haveSymbols || !ok {
				return fmt.Errorf("relocation at byte 0x%x: symbol %d does not exist", r.at, r.symbol)
			}
			p.symbol = f.symbolAt(off)
			p.Value += p.symbol.value
		}
		if err := visit(p); err != nil {
			return err
		}
	}
	return f.relrPointers(visit)
}

// table returns the file offset and size of a table of the dynamic section.
func (f *File) table(atTag, sizeTag uint64) (at, size uint64, err error) {
	addr, ok := f.tag(atTag)
	if !ok {
		return 0, 0, nil
	}
	if size, ok = f.tag(sizeTag); !ok || size == 0 {
		return 0, 0, nil
	}
	if at, ok = f.Offset(addr, size); !ok {
		return 0, 0, fmt.Errorf("dynamic tag %d: a table of 0x%x bytes at address 0x%x is not in the file", atTag, size, addr)
	}
	return at, size, nil
}

func (f *File) relrPointers(visit func(Pointer) error) error {
	at, size, err := f.table(elf.DtRelr, elf.DtRelrSize)
	if err != nil {
		return err
	}
	where := uint64(0)
	one := func(slot uint64) error {
		value, ok := f.word(slot)
		if !ok {
			return fmt.Errorf("relocation table RELR at byte 0x%x: the address 0x%x is not in the file", at, slot)
		}
		return visit(Pointer{Slot: slot, Value: value, Form: Packed})
	}
	for end := at + size; end-at >= 8; at += 8 {
		word := binary.LittleEndian.Uint64(f.data[at:])
		if word&1 == 0 {
			if err := one(word); err != nil {
				return err
			}
			where = word + 8
			continue
		}
		for i := uint64(0); i < 63; i++ {
			if word>>(i+1)&1 != 0 {
				if err := one(where + i*8); err != nil {
					return err
				}
			}
		}
		where += 63 * 8
	}
	return nil
}
