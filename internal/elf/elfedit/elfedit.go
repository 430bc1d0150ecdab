// Package elfedit changes the content of sections in ELF files: shared libraries and
// programs, 64 bits, little endian, x86-64 and AArch64, and relocatable objects.
//
// Addresses in memory do not change, because code uses relative addresses of
// data. A section that becomes smaller leaves a hole in the address space: its
// segment is split, and the bytes after it move forward only in the file, by a
// multiple of the largest page size. Content that is larger than before is stored
// in a new segment after the last one. The program header table is not moved;
// sections that follow it and that are found through headers, such as .interp and
// .gnu.hash, are moved if it requires more entries.
//
// [Parse] reads a file, [File.Layout] computes the new one, [Layout.Write] writes it.
// Unchanged ranges are copied from the input without passing through memory.
package elfedit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// maxSegments limits the number of segments, among which each pointer is looked up.
// Real files have far fewer.
const maxSegments = 1000

// Section is a section header with its name.
type Section = object.Section

// File is a linked ELF file or a relocatable object, which has no segments.
type File struct {
	*object.File
	Type uint16

	in           content.Content
	data         []byte
	phoff, shoff uint64
	shstrndx     int
	dynamic      []dynamicEntry
}

// dynamicEntry is an entry of the dynamic section.
type dynamicEntry struct {
	tag, value uint64
	at         uint64 // file offset of the value
}

// Is reports whether data begins with the magic of an ELF file.
func Is(data []byte) bool { return len(data) >= 4 && string(data[:4]) == elf.Magic }

// IsLinked reports whether data begins like a shared library or a program.
func IsLinked(data []byte) bool {
	return Is(data) && len(data) >= 18 && (data[16] == elf.EtDyn || data[16] == elf.EtExec)
}

// Parse reads the headers of a linked ELF file. It returns an error for files of
// other classes, byte orders, machines and types, files without section headers,
// and headers that are inconsistent with each other or the size of the file.
func Parse(in content.Content) (*File, error) {
	f, err := parse(in)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{f.checkLinked, f.checkPacked, f.readSections, f.readSegments, f.readDynamic} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ParseLoaded reads what the loader reads of a linked ELF file: its segments and its dynamic section. It
// accepts files without section headers, which Layout cannot change.
func ParseLoaded(in content.Content) (*File, error) {
	f, err := parse(in)
	if err != nil {
		return nil, err
	}
	if err := f.checkLinked(); err != nil {
		return nil, err
	}
	if f.File, err = object.ParseLinked(f.data); err != nil {
		return nil, err
	}
	f.phoff, f.shoff, f.shstrndx = f.Tables()
	for _, step := range []func() error{f.checkPacked, f.readSegments, f.readDynamic} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// checkLinked checks the type and the machine.
func (f *File) checkLinked() error {
	if f.Type != elf.EtExec && f.Type != elf.EtDyn {
		return fmt.Errorf("ELF type %d: expected a shared library or a program", f.Type)
	}
	if machine := binary.LittleEndian.Uint16(f.data[18:]); machine != elf.MachineX8664 && machine != elf.MachineAArch64 {
		return fmt.Errorf("ELF machine %d: expected x86-64 (62) or AArch64 (183)", machine)
	}
	return nil
}

// parse reads the type of a 64-bit little-endian file.
func parse(in content.Content) (*File, error) {
	data := in.Mapped(guard.Inside)
	if !Is(data) || len(data) < elf.HeaderSize {
		return nil, fmt.Errorf("not an ELF file: found %d bytes without an ELF header", len(data))
	}
	if data[4] != 2 {
		return nil, fmt.Errorf("ELF class %d: found a 32-bit file, expected a 64-bit one", data[4])
	}
	if data[5] != 1 {
		return nil, fmt.Errorf("ELF byte order %d: found a big-endian file, expected a little-endian one", data[5])
	}
	return &File{in: in, data: data, Type: binary.LittleEndian.Uint16(data[16:])}, nil
}

func (f *File) readSegments() error {
	if err := f.ReadSegments(); err != nil {
		return err
	}
	if n := len(f.Segments); n == 0 || n > maxSegments || f.phoff < elf.HeaderSize {
		return fmt.Errorf("program headers: found %d at byte 0x%x, expected 1 to %d after the header: not a linked file", n, f.phoff, maxSegments)
	}
	end, loads := uint64(0), 0
	for i, s := range f.Segments {
		if s.Type == elf.PtNull {
			continue
		}
		if _, ok := f.Range(s.Offset, s.FileSize); !ok && s.FileSize > 0 {
			return fmt.Errorf("program header %d: offset 0x%x + size 0x%x passes the end of the file (%d bytes)", i, s.Offset, s.FileSize, len(f.data))
		}
		if s.Addr+s.MemSize < s.Addr {
			return fmt.Errorf("program header %d: address 0x%x + size 0x%x passes the address space", i, s.Addr, s.MemSize)
		}
		if s.Type != elf.PtLoad {
			continue
		}
		loads++
		if s.Align > 1 && (bits.OnesCount64(s.Align) != 1 || (s.Offset-s.Addr)%s.Align != 0) || s.Align > 1<<28 || s.Addr+s.MemSize > 1<<62 {
			return fmt.Errorf("program header %d: offset 0x%x and address 0x%x do not fit the alignment 0x%x", i, s.Offset, s.Addr, s.Align)
		}
		if s.MemSize < s.FileSize {
			return fmt.Errorf("program header %d: 0x%x bytes of the file are loaded into 0x%x bytes of memory", i, s.FileSize, s.MemSize)
		}
		if s.Addr < end && loads > 1 {
			return fmt.Errorf("program header %d: the segment at address 0x%x overlaps the one before it or is out of order", i, s.Addr)
		}
		end = s.Addr + s.MemSize
	}
	if loads == 0 {
		return fmt.Errorf("no program header of type PT_LOAD: the file loads nothing")
	}
	return nil
}

// ErrPacked reports a file that UPX compressed.
var ErrPacked = errors.New("packed by UPX, which hides device code; unpack it with upx -d, and do not pack libraries with device code")

// checkPacked returns an error if UPX compressed the file: its magic is after the program headers, or,
// if there are no section headers, near them.
func (f *File) checkPacked() error {
	const magic, near = "UPX!", 4096
	le := binary.LittleEndian
	end, size := le.Uint64(f.data[32:])+uint64(le.Uint16(f.data[56:]))*elf.SegmentSize, uint64(len(f.data))
	if end < size && bytes.HasPrefix(f.data[min(end+4, size):], []byte(magic)) || le.Uint64(f.data[40:]) == 0 && bytes.Contains(f.data[:min(size, near)], []byte(magic)) {
		return ErrPacked
	}
	return nil
}

func (f *File) readSections() (err error) {
	if f.File, err = object.Parse(f.data); err != nil {
		return err
	}
	f.phoff, f.shoff, f.shstrndx = f.Tables()
	if f.shoff == 0 {
		return fmt.Errorf("no section headers: found a file whose sections were removed, expected section headers")
	}
	if f.shstrndx == 0 || len(f.Sections) == 0 {
		return fmt.Errorf("section names: section %d of %d does not exist", f.shstrndx, len(f.Sections))
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if _, ok := f.Range(s.Offset, s.InFile()); !ok && s.InFile() > 0 {
			return fmt.Errorf("section %d %.100q: offset 0x%x + size 0x%x passes the end of the file (%d bytes)", i, s.Name, s.Offset, s.Size, len(f.data))
		}
		if s.Flags&elf.ShfAlloc != 0 && s.Align&(s.Align-1) != 0 {
			return fmt.Errorf("section %d %.100q: alignment 0x%x is no power of two", i, s.Name, s.Align)
		}
		if s.Addr+s.Size < s.Addr && s.Flags&elf.ShfAlloc != 0 {
			return fmt.Errorf("section %d %.100q: address 0x%x + size 0x%x passes the address space", i, s.Name, s.Addr, s.Size)
		}
	}
	return nil
}

func (f *File) readDynamic() error {
	for i, s := range f.Segments {
		if s.Type != elf.PtDynamic {
			continue
		}
		if f.dynamic != nil {
			return fmt.Errorf("program header %d: a second dynamic section", i)
		}
		table, ok := f.Range(s.Offset, s.FileSize)
		if !ok {
			return fmt.Errorf("program header %d: the dynamic section passes the end of the file", i)
		}
		f.dynamic = []dynamicEntry{}
		for at := 0; at+elf.DynamicSize <= len(table); at += elf.DynamicSize {
			e := dynamicEntry{binary.LittleEndian.Uint64(table[at:]), binary.LittleEndian.Uint64(table[at+8:]), s.Offset + uint64(at) + 8}
			if e.tag == elf.DtNull {
				break
			}
			f.dynamic = append(f.dynamic, e)
			switch e.tag {
			case elf.DtRel, elf.DtAndroidRel, elf.DtAndroidRela, elf.DtAndroidRelr, elf.DtCrel:
				return fmt.Errorf("dynamic tag 0x%x: relocations of this form are not supported; expected RELA or RELR", e.tag)
			}
		}
	}
	return nil
}

// tag returns the value of a dynamic tag.
func (f *File) tag(tag uint64) (uint64, bool) {
	for _, e := range f.dynamic {
		if e.tag == tag {
			return e.value, true
		}
	}
	return 0, false
}

// Section returns the index of the section with the given name, or -1 if it is
// missing. It fails if there are several.
func (f *File) Section(name string) (int, error) {
	found := -1
	for i := range f.Sections {
		if string(f.Sections[i].Name) != name {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("sections %d and %d are both named %s: expected one", found, i, name)
		}
		found = i
	}
	return found, nil
}

// Content returns the content of a section.
func (f *File) Content(section int) content.Content {
	s := &f.Sections[section]
	if s.InFile() == 0 {
		return content.Content{} // its offset can be outside of the file
	}
	return f.in.Slice(int64(s.Offset), int64(s.InFile()))
}

// Offset returns the file offset of n bytes at an address, or false if no segment
// loads all of them from the file.
func (f *File) Offset(addr, n uint64) (uint64, bool) {
	_, off, ok := f.Loaded(addr, n)
	return off, ok
}

// word returns the 8 bytes at an address as stored in the file.
func (f *File) word(addr uint64) (uint64, bool) {
	b, _, ok := f.Loaded(addr, 8)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// pageSize returns the largest alignment of a loaded segment, at least 4096.
func (f *File) pageSize() uint64 {
	page := uint64(4096)
	for _, s := range f.Segments {
		if s.Type == elf.PtLoad {
			page = max(page, s.Align)
		}
	}
	return page
}

// Program reports whether the file is a program and not a shared library: it is
// loaded at a fixed address or has an interpreter.
func (f *File) Program() bool {
	if f.Type == elf.EtExec {
		return true
	}
	for _, s := range f.Segments {
		if s.Type == elf.PtInterp {
			return true
		}
	}
	const pie = 0x08000000
	flags, _ := f.tag(elf.DtFlags1)
	return flags&pie != 0
}

// codeEnd returns the end of the last section or header of the file. Bytes after
// it were appended to the file.
func (f *File) codeEnd() uint64 {
	end := max(f.phoff+uint64(len(f.Segments))*elf.SegmentSize, f.shoff+uint64(len(f.Sections))*elf.SectionSize)
	for i := range f.Sections {
		if n := f.Sections[i].InFile(); n > 0 {
			end = max(end, f.Sections[i].Offset+n)
		}
	}
	for _, s := range f.Segments {
		if s.Type == elf.PtLoad && s.FileSize > 0 {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	return end
}
