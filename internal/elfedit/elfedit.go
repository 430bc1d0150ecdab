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
)

// Limits of what the package reads.
const (
	maxNameLength  = 4096
	maxHeaderCount = 0xffff
	// maxSegments limits the number of segments, among which each pointer is
	// looked up. Real files have far fewer.
	maxSegments = 1000
)

// Section is a section header with its name.
type Section struct {
	Name string
	elf.SectionHeader
}

// InFile returns the number of bytes that the section has in the file.
func (s *Section) InFile() uint64 {
	if s.Type == elf.ShtNobits || s.Type == 0 {
		return 0
	}
	return s.Size
}

// File is a linked ELF file or a relocatable object, which has no segments.
type File struct {
	Type    uint16
	Machine uint16
	// Segments and Sections are the headers in the order of the file. Section 0 is
	// the null section.
	Segments []elf.Segment
	Sections []Section

	in       content.Content
	data     []byte
	phoff    uint64
	shoff    uint64
	shstrndx int
	dynamic  []dynamicEntry
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

// IsRelocatable reports whether data begins like a relocatable object, in little-endian
// order.
func IsRelocatable(data []byte) bool {
	return Is(data) && len(data) >= 18 && binary.LittleEndian.Uint16(data[16:]) == elf.EtRel
}

// Parse reads the headers of a linked ELF file. It returns an error for files of
// other classes, byte orders, machines and types, files without section headers,
// and headers that are inconsistent with each other or the size of the file.
func Parse(in content.Content) (*File, error) {
	f, err := parse(in)
	if err != nil {
		return nil, err
	}
	if f.Type != elf.EtExec && f.Type != elf.EtDyn {
		return nil, fmt.Errorf("ELF type %d: expected a shared library or a program", f.Type)
	}
	if f.Machine != elf.MachineX8664 && f.Machine != elf.MachineAArch64 {
		return nil, fmt.Errorf("ELF machine %d: expected x86-64 (62) or AArch64 (183)", f.Machine)
	}
	for _, step := range []func() error{f.readSegments, f.readSections, f.readDynamic} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// parse reads the type and the machine of a 64-bit little-endian file.
func parse(in content.Content) (*File, error) {
	data := in.Bytes()
	if !Is(data) || len(data) < elf.HeaderSize {
		return nil, fmt.Errorf("not an ELF file: found %d bytes without an ELF header", len(data))
	}
	if data[4] != 2 {
		return nil, fmt.Errorf("ELF class %d: found a 32-bit file, expected a 64-bit one", data[4])
	}
	if data[5] != 1 {
		return nil, fmt.Errorf("ELF byte order %d: found a big-endian file, expected a little-endian one", data[5])
	}
	return &File{in: in, data: data, Type: binary.LittleEndian.Uint16(data[16:]), Machine: binary.LittleEndian.Uint16(data[18:])}, nil
}

// bytes returns n bytes of the file at off.
func (f *File) bytes(off, n uint64) ([]byte, bool) {
	if off > uint64(len(f.data)) || n > uint64(len(f.data))-off {
		return nil, false
	}
	return f.data[off : off+n : off+n], true
}

func (f *File) readSegments() error {
	f.phoff = binary.LittleEndian.Uint64(f.data[32:])
	size, count := uint64(binary.LittleEndian.Uint16(f.data[54:])), uint64(binary.LittleEndian.Uint16(f.data[56:]))
	if count == 0 {
		return fmt.Errorf("no program headers: not a linked file")
	}
	if size != elf.SegmentSize || count == maxHeaderCount {
		return fmt.Errorf("program headers: found %d of %d bytes, expected headers of %d bytes", count, size, elf.SegmentSize)
	}
	if count > maxSegments {
		return fmt.Errorf("program headers: found %d, expected at most %d", count, maxSegments)
	}
	table, ok := f.bytes(f.phoff, count*elf.SegmentSize)
	if !ok || f.phoff < elf.HeaderSize {
		return fmt.Errorf("program headers at byte 0x%x: %d headers do not lie in the file of %d bytes", f.phoff, count, len(f.data))
	}
	f.Segments = make([]elf.Segment, count)
	if _, err := binary.Decode(table, binary.LittleEndian, f.Segments); err != nil {
		return err
	}
	end, loads := uint64(0), 0
	for i, s := range f.Segments {
		if s.Type == elf.PtNull {
			continue
		}
		if _, ok := f.bytes(s.Offset, s.FileSize); !ok && s.FileSize > 0 {
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

// packed reports whether UPX compressed the file: its magic is after the program headers, or, if there
// are no section headers, near them.
func (f *File) packed() bool {
	const magic, near = "UPX!", 4096
	end := f.phoff + uint64(len(f.Segments))*elf.SegmentSize
	at, ok := f.bytes(end+4, uint64(len(magic)))
	return ok && string(at) == magic || f.shoff == 0 && bytes.Contains(f.data[:min(len(f.data), near)], []byte(magic))
}

func (f *File) readSections() error {
	f.shoff = binary.LittleEndian.Uint64(f.data[40:])
	size, count := uint64(binary.LittleEndian.Uint16(f.data[58:])), uint64(binary.LittleEndian.Uint16(f.data[60:]))
	names := uint64(binary.LittleEndian.Uint16(f.data[62:]))
	if f.packed() {
		return ErrPacked
	}
	if f.shoff == 0 {
		return fmt.Errorf("no section headers: found a file whose sections were removed, expected section headers")
	}
	if size != elf.SectionSize {
		return fmt.Errorf("section headers of %d bytes: expected %d", size, elf.SectionSize)
	}
	first, ok := f.bytes(f.shoff, elf.SectionSize)
	if !ok {
		return fmt.Errorf("section headers at byte 0x%x: past the end of the file (%d bytes)", f.shoff, len(f.data))
	}
	if count == 0 {
		count = binary.LittleEndian.Uint64(first[32:])
	}
	if names == elf.ShnXindex {
		names = uint64(binary.LittleEndian.Uint32(first[40:]))
	}
	if count == 0 || count > uint64(len(f.data))/elf.SectionSize {
		return fmt.Errorf("section headers: %d headers do not lie in the file of %d bytes", count, len(f.data))
	}
	table, ok := f.bytes(f.shoff, count*elf.SectionSize)
	if !ok {
		return fmt.Errorf("section headers at byte 0x%x: %d headers do not lie in the file of %d bytes", f.shoff, count, len(f.data))
	}
	if names >= count || names == 0 {
		return fmt.Errorf("section names: section %d of %d does not exist", names, count)
	}
	f.shstrndx = int(names)
	f.Sections = make([]Section, count)
	for i := range f.Sections {
		if _, err := binary.Decode(table[i*elf.SectionSize:], binary.LittleEndian, &f.Sections[i].SectionHeader); err != nil {
			return err
		}
	}
	strings := &f.Sections[names]
	text, ok := f.bytes(strings.Offset, strings.InFile())
	if !ok {
		return fmt.Errorf("section names at byte 0x%x: past the end of the file (%d bytes)", strings.Offset, len(f.data))
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if uint64(s.SectionHeader.Name) >= uint64(len(text)) {
			return fmt.Errorf("section %d: its name at byte 0x%x is outside of the section names", i, s.SectionHeader.Name)
		}
		s.Name = cString(text[s.SectionHeader.Name:])
		if _, ok := f.bytes(s.Offset, s.InFile()); !ok && s.InFile() > 0 {
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

// cString returns the text before the first NUL, truncated to a maximum length.
func cString(b []byte) string {
	name, _, _ := bytes.Cut(b[:min(len(b), maxNameLength)], []byte{0})
	return string(name)
}

func (f *File) readDynamic() error {
	for i, s := range f.Segments {
		if s.Type != elf.PtDynamic {
			continue
		}
		if f.dynamic != nil {
			return fmt.Errorf("program header %d: a second dynamic section", i)
		}
		table, ok := f.bytes(s.Offset, s.FileSize)
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
		if f.Sections[i].Name != name {
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
	for _, s := range f.Segments {
		if s.Type == elf.PtLoad && addr >= s.Addr && addr-s.Addr <= s.FileSize && n <= s.FileSize-(addr-s.Addr) {
			return s.Offset + (addr - s.Addr), true
		}
	}
	return 0, false
}

// word returns the 8 bytes at an address as stored in the file.
func (f *File) word(addr uint64) (uint64, bool) {
	off, ok := f.Offset(addr, 8)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint64(f.data[off:]), true
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
