package elfedit

import (
	"encoding/binary"
	"fmt"

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
	symbol uint64 // value of the symbol
	index  uint32 // of the symbol
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

// Pointers calls visit with every relocated pointer of the loaded file, in the order
// of the tables. Undefined symbols have the value 0.
func (f *File) Pointers(visit func(Pointer) error) error {
	for _, t := range [...]struct{ at, size uint64 }{{elf.DtRela, elf.DtRelaSize}, {elf.DtJmpRel, elf.DtPltSize}} {
		at, size, err := f.table(t.at, t.size)
		if err != nil {
			return err
		}
		if err := f.relaPointers(at, size, visit); err != nil {
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

func (f *File) relaPointers(at, size uint64, visit func(Pointer) error) error {
	if kind, ok := f.tag(elf.DtPltRel); ok && kind != elf.DtRela {
		return fmt.Errorf("dynamic tag DT_PLTREL: found %d, expected %d: relocations without addends are not supported", kind, elf.DtRela)
	}
	symtab, haveSymbols := f.tag(elf.DtSymtab)
	for end := at + size; end-at >= elf.RelaSize; at += elf.RelaSize {
		b := f.data[at : at+elf.RelaSize]
		info := binary.LittleEndian.Uint64(b[8:])
		form, isAddress := f.form(uint32(info))
		if !isAddress {
			continue
		}
		p := Pointer{Slot: binary.LittleEndian.Uint64(b), Value: binary.LittleEndian.Uint64(b[16:]), Form: form, record: at, index: uint32(info >> 32)}
		if form == Symbolic && p.index != 0 {
			off, ok := uint64(0), false
			if haveSymbols {
				off, ok = f.Offset(symtab+uint64(p.index)*elf.SymbolSize, elf.SymbolSize)
			}
			if !ok {
				return fmt.Errorf("relocation at byte 0x%x: symbol %d does not exist", at, p.index)
			}
			p.symbol = binary.LittleEndian.Uint64(f.data[off+8:])
			p.Value += p.symbol
		}
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
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
