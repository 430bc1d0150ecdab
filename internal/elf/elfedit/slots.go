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
	known := make(map[uint32]bool) // by index of the symbol
	var slots []uint64
	for r, err := range f.dynamicRelas() {
		if err != nil {
			return nil, err
		}
		switch {
		case f.Machine == elf.MachineX8664 && r.typ != x8664GlobDat && r.typ != x8664JumpSlot,
			f.Machine == elf.MachineAArch64 && r.typ != aarch64GlobDat && r.typ != aarch64JumpSlot:
			continue
		}
		is, seen := known[r.symbol]
		if !seen {
			is = named(uint64(r.symbol))
			known[r.symbol] = is
		}
		if is {
			slots = append(slots, r.slot)
		}
	}
	return slots, nil
}
