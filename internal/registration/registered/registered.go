// Package registered finds the kernels that a linked file registers with the HIP runtime: those that
// its constructors pass to __hipRegisterFunction, and those in its table of offload entries.
//
// Constructors are found in x86-64 code only. The compiler writes one call for each kernel, with the
// address of the name in the third argument:
//
//	lea  rdx, [rip + name]    or mov edx, name
//	call __hipRegisterFunction@plt
package registered

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const function = "__hipRegisterFunction"

// maxKernels is the largest number of calls and entries that are read.
const maxKernels = 1 << 20

// Kernels returns the names of the kernels, sorted. complete reports whether the file registers no
// others: it is false if a name was not found.
func Kernels(c content.Content) (names []string, complete bool, err error) {
	f, err := elfedit.Parse(c)
	if err != nil {
		return nil, false, err
	}
	r := reader{f: f, data: c.Mapped(guard.Inside), names: make(map[string]bool), complete: true}
	if err := r.entries(); err != nil {
		return nil, false, err
	}
	slots, err := f.Slots(function)
	if err != nil {
		return nil, false, err
	}
	switch {
	case len(slots) == 0:
	case f.Machine != elf.MachineX8664:
		r.complete = false
	default:
		r.calls(slots)
	}
	return slices.Sorted(maps.Keys(r.names)), r.complete, nil
}

// reader reads a file.
type reader struct {
	f        *elfedit.File
	data     []byte
	names    map[string]bool
	complete bool
}

// add adds the name at an address.
func (r *reader) add(addr uint64) {
	off, ok := r.f.Offset(addr, 1)
	const most = 1 << 16
	var name []byte
	if ok {
		name, _, ok = bytes.Cut(r.data[off:min(off+most, uint64(len(r.data)))], []byte{0})
	}
	printable := !bytes.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f })
	if !ok || len(name) == 0 || !printable || len(r.names) >= maxKernels {
		r.complete = false
		return
	}
	r.names[string(name)] = true
}

// entries reads the table of offload entries. An entry is a kernel of HIP if its kind says so and its
// size is 0.
func (r *reader) entries() error {
	const entrySize, kindAt, nameAt, sizeAt, hip = 56, 10, 24, 32, 4
	section, err := r.f.Section(embedding.EntriesSection)
	if err != nil || section < 0 {
		return err
	}
	s := &r.f.Sections[section]
	data := r.f.Content(section).Mapped(guard.Inside)
	pointers := make(map[uint64]uint64)
	err = r.f.Pointers(func(p elfedit.Pointer) error {
		if p.Slot >= s.Addr && p.Slot-s.Addr < s.Size {
			pointers[p.Slot] = p.Value
		}
		return nil
	})
	if err != nil {
		return err
	}
	for at := 0; at+entrySize <= len(data) && at/entrySize < maxKernels; at += entrySize {
		e := data[at:]
		if binary.LittleEndian.Uint16(e[kindAt:]) != hip || binary.LittleEndian.Uint64(e[sizeAt:]) != 0 {
			continue
		}
		name, ok := pointers[s.Addr+uint64(at)+nameAt]
		if !ok {
			name = binary.LittleEndian.Uint64(e[nameAt:]) // in a program at fixed addresses
		}
		r.add(name)
	}
	return nil
}

// calls reads the calls of a function whose address is in slots.
func (r *reader) calls(slots []uint64) {
	isSlot := make(map[uint64]bool)
	for _, slot := range slots {
		isSlot[slot] = true
	}
	isTarget := make(map[uint64]bool) // of calls: the stubs of the procedure linkage table
	r.code(func(code []byte, addr uint64) {
		for at := 0; ; at++ {
			i := bytes.Index(code[at:], []byte{0xff, 0x25}) // jmp [rip + n]
			if i < 0 || at+i+6 > len(code) {
				return
			}
			at += i
			stub := addr + uint64(at)
			if !isSlot[stub+6+uint64(int64(int32(binary.LittleEndian.Uint32(code[at+2:]))))] {
				continue
			}
			// endbr64 and the prefix bnd can precede the jump.
			for _, before := range []uint64{0, 1, 4, 5} {
				isTarget[stub-before] = true
			}
		}
	})
	found := 0
	r.code(func(code []byte, addr uint64) {
		last := 0
		for at := 0; at+6 <= len(code); at++ {
			size := 0
			switch {
			case code[at] == 0xe8: // call n
				if isTarget[addr+uint64(at)+5+uint64(int64(int32(binary.LittleEndian.Uint32(code[at+1:]))))] {
					size = 5
				}
			case code[at] == 0xff && code[at+1] == 0x15: // call [rip + n]
				if isSlot[addr+uint64(at)+6+uint64(int64(int32(binary.LittleEndian.Uint32(code[at+2:]))))] {
					size = 6
				}
			}
			if size == 0 {
				continue
			}
			found++
			const most = 160 // bytes of the instructions that set the arguments
			from := max(last, at-most)
			r.argument(code[from:at], addr+uint64(from))
			last = at + size
			at = last - 1
		}
	})
	if found == 0 {
		r.complete = false // such as a call through a register
	}
}

// code calls visit with the code in each loaded segment.
func (r *reader) code(visit func(code []byte, addr uint64)) {
	const executable = 1
	for _, s := range r.f.Segments {
		if s.Type == elf.PtLoad && s.Flags&executable != 0 && s.FileSize > 0 && s.Offset+s.FileSize <= uint64(len(r.data)) {
			visit(r.data[s.Offset:s.Offset+s.FileSize], s.Addr)
		}
	}
}

// argument adds the name that the instructions before a call pass as its third or fourth argument,
// which are the same.
func (r *reader) argument(code []byte, addr uint64) {
	for _, form := range []struct {
		bytes    string
		relative bool
	}{{"\x48\x8d\x15", true}, {"\x48\x8d\x0d", true}, {"\xba", false}, {"\xb9", false}} { // lea rdx, lea rcx, mov edx, mov ecx
		for end := len(code); ; {
			i := bytes.LastIndex(code[:end], []byte(form.bytes))
			if i < 0 {
				break
			}
			end = i
			after := i + len(form.bytes) + 4
			if after > len(code) {
				continue
			}
			value := uint64(binary.LittleEndian.Uint32(code[after-4:]))
			if form.relative {
				value = addr + uint64(after) + uint64(int64(int32(value)))
			}
			if _, ok := r.f.Offset(value, 2); ok {
				r.add(value)
				return
			}
		}
	}
	r.complete = false
}
