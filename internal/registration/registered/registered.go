// Package registered finds what the host code of a file registers with the HIP runtime: bundles and kernels.
// All readers of linked files use it, so that they find the same code.
//
// A bundle is found through its wrapper, a record that constructors pass to __hipRegisterFatBinary, see Find.
// Kernels are those that constructors pass to __hipRegisterFunction, and those in the table of offload entries.
//
// Constructors are found in x86-64 code only. The compiler writes one call for each wrapper and each kernel, with
// the address of the wrapper in the first argument, and that of the name in the third:
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

// Functions of the runtime.
const (
	registerFatBinary = "__hipRegisterFatBinary"
	registerFunction  = "__hipRegisterFunction"
)

// maxKernels is the largest number of calls and entries that are read.
const maxKernels = 1 << 20

// Kernels returns the names of the kernels, sorted. complete reports whether the file registers no
// others: it is false if a name was not found.
func Kernels(c content.Content) (names []string, complete bool, err error) {
	f, err := elfedit.ParseLoaded(c)
	if err != nil {
		return nil, false, err
	}
	r := reader{f: f, data: c.Mapped(guard.Inside), names: make(map[string]bool), complete: true}
	if err := r.entries(); err != nil {
		return nil, false, err
	}
	slots, err := f.Slots(registerFunction)
	if err != nil {
		return nil, false, err
	}
	switch {
	case len(slots) == 0:
	case f.Machine != elf.MachineX8664:
		r.complete = false
	default:
		found := r.calls(slots, func(code []byte, addr uint64) {
			if name, ok := r.argument(code, addr, thirdArgument, 2); ok {
				r.add(name)
			} else {
				r.complete = false
			}
		})
		r.complete = r.complete && found > 0 // no call: such as one through a register
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

// Fields of an offload entry.
const (
	entrySize    = 56
	versionAt    = 8
	entryKindAt  = 10
	entryNameAt  = 24
	entrySizeAt  = 32
	entryVersion = 1
	kindHIP      = 4
)

// entries reads the offload entries: those in the section for them, and records of the same form that the loader
// relocates, if there is no such section. An entry is a kernel of HIP if its kind says so and its size is 0.
func (r *reader) entries() error {
	section, err := r.f.Section(embedding.EntriesSection)
	if err != nil {
		return err
	}
	var start, size uint64
	var data []byte
	if section >= 0 {
		s := &r.f.Sections[section]
		if start, size = s.Addr, s.Size; s.InFile() > 0 {
			if data, err = r.f.Data(section); err != nil {
				return err
			}
		}
	}
	pointers := make(map[uint64]uint64)
	err = r.f.Pointers(func(p elfedit.Pointer) error {
		switch {
		case section >= 0 && p.Slot >= start && p.Slot-start < size:
			pointers[p.Slot] = p.Value
		case section < 0 && r.isEntry(p.Slot-entryNameAt):
			r.add(p.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for at := 0; at+entrySize <= len(data) && at/entrySize < maxKernels; at += entrySize {
		e := data[at:]
		if binary.LittleEndian.Uint16(e[entryKindAt:]) != kindHIP || binary.LittleEndian.Uint64(e[entrySizeAt:]) != 0 {
			continue
		}
		name, ok := pointers[start+uint64(at)+entryNameAt]
		if !ok {
			name = binary.LittleEndian.Uint64(e[entryNameAt:]) // in a program at fixed addresses
		}
		r.add(name)
	}
	return nil
}

// isEntry reports whether the entry of a kernel of HIP is at an address.
func (r *reader) isEntry(addr uint64) bool {
	data, _, ok := r.f.Loaded(addr, entrySize)
	le := binary.LittleEndian
	return ok && le.Uint64(data) == 0 && le.Uint16(data[versionAt:]) == entryVersion && le.Uint16(data[entryKindAt:]) == kindHIP && le.Uint64(data[entrySizeAt:]) == 0
}

// calls calls visit with the instructions before each call of a function whose address is in slots, and the address of
// the first. It returns the number of calls.
func (r *reader) calls(slots []uint64, visit func(code []byte, addr uint64)) (found int) {
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
			visit(code[from:at], addr+uint64(from))
			last = at + size
			at = last - 1
		}
	})
	return found
}

const executable = 1 // the flag of segments

// code calls visit with the code in each loaded segment.
func (r *reader) code(visit func(code []byte, addr uint64)) {
	for _, s := range r.f.Segments {
		if s.Type == elf.PtLoad && s.Flags&executable != 0 && s.FileSize > 0 && s.Offset+s.FileSize <= uint64(len(r.data)) {
			visit(r.data[s.Offset:s.Offset+s.FileSize], s.Addr)
		}
	}
}

// form is an instruction that sets an argument to an address.
type form struct {
	bytes    string
	relative bool
}

// The instructions that set an argument: lea and mov of its register. Kernels have the same name as third and
// fourth argument.
var (
	firstArgument = []form{{"\x48\x8d\x3d", true}, {"\xbf", false}}
	thirdArgument = []form{{"\x48\x8d\x15", true}, {"\x48\x8d\x0d", true}, {"\xba", false}, {"\xb9", false}}
)

// argument returns the address of size bytes in the file that the last of the instructions before a call sets: an
// earlier one can be of the function before. Instructions with relative addresses, of which there are fewer by
// chance, are preferred.
func (r *reader) argument(code []byte, addr uint64, forms []form, size uint64) (value uint64, ok bool) {
	last := -1
	for _, form := range forms {
		if ok && !form.relative {
			break
		}
		for end := len(code); ; {
			i := bytes.LastIndex(code[:end], []byte(form.bytes))
			if i <= last {
				break
			}
			end = i
			after := i + len(form.bytes) + 4
			if after > len(code) {
				continue
			}
			found := uint64(binary.LittleEndian.Uint32(code[after-4:]))
			if form.relative {
				found = addr + uint64(after) + uint64(int64(int32(found)))
			}
			if _, inside := r.f.Offset(found, size); inside {
				last, value, ok = i, found, true
				break
			}
		}
	}
	return value, ok
}
