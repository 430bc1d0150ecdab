package elfedit

import (
	"bytes"
	"encoding/binary"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Relocations of pointers to functions of other files.
const (
	x8664GlobDat    = 6
	x8664JumpSlot   = 7
	aarch64GlobDat  = 1025
	aarch64JumpSlot = 1026
)

// Slots returns the addresses of the pointers that the loader sets to the function or variable of a
// name in another file.
func (f *File) Slots(symbol string) ([]uint64, error) {
	symtab, ok := f.tag(elf.DtSymtab)
	strtab, haveNames := f.tag(elf.DtStrtab)
	if !ok || !haveNames {
		return nil, nil
	}
	text := append([]byte(symbol), 0)
	named := func(index uint64) bool {
		off, ok := f.Offset(symtab+index*elf.SymbolSize, elf.SymbolSize)
		if !ok {
			return false
		}
		name, ok := f.Offset(strtab+uint64(binary.LittleEndian.Uint32(f.data[off:])), uint64(len(text)))
		return ok && bytes.Equal(f.data[name:name+uint64(len(text))], text)
	}
	known := make(map[uint64]bool) // by index of the symbol
	var slots []uint64
	for _, t := range [...]struct{ at, size uint64 }{{elf.DtRela, elf.DtRelaSize}, {elf.DtJmpRel, elf.DtPltSize}} {
		at, size, err := f.table(t.at, t.size)
		if err != nil {
			return nil, err
		}
		for end := at + size; end-at >= elf.RelaSize; at += elf.RelaSize {
			info := binary.LittleEndian.Uint64(f.data[at+8:])
			switch typ := uint32(info); {
			case f.Machine == elf.MachineX8664 && typ != x8664GlobDat && typ != x8664JumpSlot,
				f.Machine == elf.MachineAArch64 && typ != aarch64GlobDat && typ != aarch64JumpSlot:
				continue
			}
			is, seen := known[info>>32]
			if !seen {
				is = named(info >> 32)
				known[info>>32] = is
			}
			if is {
				slots = append(slots, binary.LittleEndian.Uint64(f.data[at:]))
			}
		}
	}
	return slots, nil
}
