// Package testelf builds small linked ELF files for tests: AMD code objects, and libraries
// and programs with HIP wrappers.
package testelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

var le = binary.LittleEndian

// The sizes of headers.
const (
	headerSize  = 64
	segmentSize = 56
	sectionSize = 64
)

// header returns the header of a file with segments right after it, and sections at shoff, the last
// of which holds their names.
func header(typ elf.Type, machine elf.Machine, segments uint16, shoff uint64, sections uint16) elf.Header64 {
	h := elf.Header64{
		Type: uint16(typ), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: headerSize, Shoff: shoff, Ehsize: headerSize, Phentsize: segmentSize, Phnum: segments, Shentsize: sectionSize, Shnum: sections,
	}
	copy(h.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)})
	if sections > 0 {
		h.Shstrndx = sections - 1
	}
	return h
}

// write appends numbers in little-endian order.
func write(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if err := binary.Write(b, le, v); err != nil {
			panic(err)
		}
	}
}
