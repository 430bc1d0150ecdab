package object

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// byteOrder is the order of bytes in a file.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// elfHeader is the file header, including counts that section header 0 holds.
type elfHeader struct {
	order             byteOrder
	is64              bool
	osabi, abiVersion byte
	typ, machine      uint16
	version, flags    uint32
	entry, phoff      uint64
	shoff             uint64
	phentsize, phnum  uint16
	shstrndx          uint32
}

// Sizes of ELF structures in bytes.
func (h *elfHeader) ehdrSize() uint64 { return pick(h.is64, elf.HeaderSize, 52) }
func (h *elfHeader) shdrSize() uint64 { return pick(h.is64, elf.SectionSize, 40) }
func (h *elfHeader) phdrSize() uint64 { return pick(h.is64, elf.SegmentSize, 32) }
func (h *elfHeader) symSize() uint64  { return pick(h.is64, elf.SymbolSize, 16) }
func (h *elfHeader) relSize() uint64  { return pick(h.is64, 16, 8) }
func (h *elfHeader) relaSize() uint64 { return pick(h.is64, elf.RelaSize, 12) }
func (h *elfHeader) addrSize() uint64 { return pick(h.is64, 8, 4) }

func pick(is64 bool, a, b uint64) uint64 {
	if is64 {
		return a
	}
	return b
}

// addr reads an address-sized number.
func (h *elfHeader) addr(b []byte) uint64 {
	if h.is64 {
		return h.order.Uint64(b)
	}
	return uint64(h.order.Uint32(b))
}

// openELF reads the file header and the section headers, without names. It uses the
// memory of sections if that is sufficient.
func openELF(data []byte, format Format, sections []Section) (*File, error) {
	if len(data) < 52 {
		return nil, fmt.Errorf("elf header: found %d bytes, expected 52 or 64", len(data))
	}
	h := &elfHeader{osabi: data[7], abiVersion: data[8]}
	switch data[4] {
	case 1:
	case 2:
		h.is64 = true
		if len(data) < 64 {
			return nil, fmt.Errorf("elf header: found %d bytes, expected 64", len(data))
		}
	default:
		return nil, fmt.Errorf("elf header at byte 0x4: class %d, expected 1 or 2", data[4])
	}
	switch data[5] {
	case 1:
		h.order = binary.LittleEndian
	case 2:
		h.order = binary.BigEndian
	default:
		return nil, fmt.Errorf("elf header at byte 0x5: byte order %d, expected 1 or 2", data[5])
	}
	h.typ, h.machine = h.order.Uint16(data[16:]), h.order.Uint16(data[18:])
	h.version = h.order.Uint32(data[20:])
	w := h.addrSize()
	h.entry, h.phoff, h.shoff = h.addr(data[24:]), h.addr(data[24+w:]), h.addr(data[24+2*w:])
	rest := data[24+3*w:]
	h.flags = h.order.Uint32(rest)
	h.phentsize, h.phnum = h.order.Uint16(rest[6:]), h.order.Uint16(rest[8:])
	shentsize, shnum := h.order.Uint16(rest[10:]), uint64(h.order.Uint16(rest[12:]))
	h.shstrndx = uint32(h.order.Uint16(rest[14:]))

	f := &File{Format: format, Machine: h.machine, Is64: h.is64, BigEndian: data[5] == 2, data: data, elf: h}
	if h.shoff == 0 {
		return f, nil
	}
	size := uint64(len(data))
	if uint64(shentsize) != h.shdrSize() {
		return nil, fmt.Errorf("elf header: section headers of %d bytes, expected %d", shentsize, h.shdrSize())
	}
	if h.shoff > size || size-h.shoff < h.shdrSize() {
		return nil, fmt.Errorf("section header table at byte 0x%x passes the end of the file (%d bytes)", h.shoff, size)
	}
	first := h.section(data[h.shoff:])
	if shnum == 0 {
		shnum = first.Size
	}
	if h.shstrndx == elf.ShnXindex {
		h.shstrndx = first.Link
	}
	if shnum > (size-h.shoff)/h.shdrSize() {
		return nil, fmt.Errorf("section header table at byte 0x%x: %d headers of %d bytes pass the end of the file (%d bytes)",
			h.shoff, shnum, shentsize, size)
	}
	f.Sections = slices.Grow(sections[:0], int(shnum))[:shnum]
	for i := range f.Sections {
		f.Sections[i] = h.section(data[h.shoff+uint64(i)*h.shdrSize():])
	}
	return f, nil
}

// Tables returns where the program headers and the section headers of an ELF file are, and the section
// with the names of sections; 0 for missing ones.
func (f *File) Tables() (segments, sections uint64, names int) {
	return f.elf.phoff, f.elf.shoff, int(f.elf.shstrndx)
}

// section decodes a section header.
func (h *elfHeader) section(b []byte) Section {
	w := h.addrSize()
	return Section{SectionHeader: elf.SectionHeader{
		Name:    h.order.Uint32(b),
		Type:    h.order.Uint32(b[4:]),
		Flags:   h.addr(b[8:]),
		Addr:    h.addr(b[8+w:]),
		Offset:  h.addr(b[8+2*w:]),
		Size:    h.addr(b[8+3*w:]),
		Link:    h.order.Uint32(b[8+4*w:]),
		Info:    h.order.Uint32(b[12+4*w:]),
		Align:   h.addr(b[16+4*w:]),
		EntSize: h.addr(b[16+5*w:]),
	}}
}

func (f *File) elfSectionNames() error {
	h := f.elf
	var names *stringTable
	if h.shstrndx != 0 && len(f.Sections) > 0 {
		if uint64(h.shstrndx) >= uint64(len(f.Sections)) {
			return fmt.Errorf("elf header: section names are in section %d of %d", h.shstrndx, len(f.Sections))
		}
		var err error
		if names, err = f.elfStrings(int(h.shstrndx)); err != nil {
			return err
		}
	}
	for i := range f.Sections {
		off := uint64(f.Sections[i].SectionHeader.Name)
		if off == 0 {
			continue
		}
		var ok bool
		if names != nil {
			f.Sections[i].Name, ok = names.at(off)
		}
		if !ok {
			return fmt.Errorf("section %d of %d at byte 0x%x: name offset 0x%x lies outside the table of names",
				i, len(f.Sections), h.shoff+uint64(i)*h.shdrSize(), off)
		}
	}
	return nil
}

// elfStrings opens the string table in section i.
func (f *File) elfStrings(i int) (*stringTable, error) {
	if i >= len(f.Sections) || f.Sections[i].Type != elf.ShtStrtab {
		return nil, fmt.Errorf("section %d is not a string table", i)
	}
	data, err := f.Data(i)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[len(data)-1] != 0 {
		return nil, fmt.Errorf("section %d, a string table at byte 0x%x, does not end with a NUL", i, f.Sections[i].Offset)
	}
	return newStringTable(data), nil
}

// elfTable returns the contents of section i, which must be entries of size bytes.
func (f *File) elfTable(i int, size uint64) ([]byte, error) {
	s := &f.Sections[i]
	if s.EntSize != size || s.Size%size != 0 {
		return nil, fmt.Errorf("section %d %q: %d bytes in entries of %d, expected entries of %d",
			i, clip(s.Name), s.Size, s.EntSize, size)
	}
	return f.Data(i)
}

// symtab is an opened symbol table.
type symtab struct {
	section int // its index, 0 if it is in no section
	offset  uint64
	entries []byte
	names   *stringTable
	shndx   []byte // extended section indices; nil without them
}

// elfSymtab opens the symbol table in the section of a type. Without such a section, its section is 0.
func (f *File) elfSymtab(typ uint32) (t symtab, err error) {
	shndx := 0
	for i := range f.Sections {
		switch f.Sections[i].Type {
		case typ:
			if t.section != 0 {
				return t, fmt.Errorf("sections %d and %d are both symbol tables", t.section, i)
			}
			t.section = i
		case elf.ShtSymtabShndx:
			shndx = i
		}
	}
	if t.section == 0 {
		return t, nil
	}
	s := &f.Sections[t.section]
	t.offset = s.Offset
	if t.entries, err = f.elfTable(t.section, f.elf.symSize()); err != nil {
		return t, err
	}
	if t.names, err = f.elfStrings(int(s.Link)); err != nil {
		return t, fmt.Errorf("symbol table in section %d: %w", t.section, err)
	}
	if shndx != 0 && int(f.Sections[shndx].Link) == t.section {
		if t.shndx, err = f.elfTable(shndx, 4); err != nil {
			return t, err
		}
		if uint64(len(t.shndx))/4 != s.Size/f.elf.symSize() {
			return t, fmt.Errorf("section %d holds section indices for %d symbols, expected %d",
				shndx, len(t.shndx)/4, s.Size/f.elf.symSize())
		}
	}
	return t, nil
}

// elfSymbol is a symbol in its stored form.
type elfSymbol struct {
	name        []byte
	value, size uint64
	section     uint32 // shndx, or the extended index
	shndx       uint16
	info, other byte
}

func (s *elfSymbol) binding() byte { return s.info >> 4 }
func (s *elfSymbol) kind() byte    { return s.info & 0xf }

// reserved reports whether shndx is a reserved value and not a section index.
func (s *elfSymbol) reserved() bool { return s.shndx >= elf.ShnLoReserve && s.shndx != elf.ShnXindex }

// symbol decodes symbol i of t into s.
func (f *File) symbol(t *symtab, i int, s *elfSymbol) error {
	h := f.elf
	b := t.entries[uint64(i)*h.symSize():]
	name := uint64(h.order.Uint32(b))
	if h.is64 {
		s.info, s.other, s.shndx = b[4], b[5], h.order.Uint16(b[6:])
		s.value, s.size = h.order.Uint64(b[8:]), h.order.Uint64(b[16:])
	} else {
		s.value, s.size = uint64(h.order.Uint32(b[4:])), uint64(h.order.Uint32(b[8:]))
		s.info, s.other, s.shndx = b[12], b[13], h.order.Uint16(b[14:])
	}
	var ok bool
	if s.name, ok = t.names.at(name); !ok && (name != 0 || t.section != 0) {
		return fmt.Errorf("symbol %d at byte 0x%x: name offset 0x%x lies outside the table of names (%d bytes)",
			i, t.offset+uint64(i)*h.symSize(), name, len(t.names.data))
	}
	s.section = uint32(s.shndx)
	if s.shndx == elf.ShnXindex {
		if t.shndx == nil {
			return fmt.Errorf("symbol %d %q: its section index is in a table that the file does not have", i, clip(s.name))
		}
		s.section = h.order.Uint32(t.shndx[4*i:])
	}
	if t.section != 0 && !s.reserved() && s.section >= uint32(len(f.Sections)) && s.section != 0 {
		return fmt.Errorf("symbol %d %q: section %d does not exist, the file has %d",
			i, clip(s.name), s.section, len(f.Sections))
	}
	return nil
}

func (f *File) elfSymbols(yield func(Symbol, error) bool) {
	t, err := f.elfSymtab(elf.ShtSymtab)
	if err != nil {
		yield(Symbol{}, err)
		return
	}
	var s Symbol
	for i := range t.count(f.elf) {
		if err := f.programSymbol(&t, i, &s); !yield(s, err) || err != nil {
			return
		}
	}
}

// count returns the number of symbols.
func (t *symtab) count(h *elfHeader) int { return int(uint64(len(t.entries)) / h.symSize()) }

// programSymbol decodes symbol i of t into s as Symbols returns it.
func (f *File) programSymbol(t *symtab, i int, s *Symbol) error {
	var es elfSymbol
	if err := f.symbol(t, i, &es); err != nil {
		*s = Symbol{}
		return err
	}
	*s = Symbol{
		Name: es.name, Value: es.value, Size: es.size, Section: -1, Type: es.kind(),
		Global:  es.binding() != elf.BindLocal,
		Weak:    es.binding() == elf.BindWeak,
		Special: i == 0 || es.kind() == elf.TypeFile || es.kind() == elf.TypeSection || f.mappingSymbol(es.name),
	}
	switch {
	case es.shndx == 0:
	case es.shndx == elf.ShnAbs:
		s.Kind = Absolute
	case es.shndx == elf.ShnCommon:
		s.Kind = Common
	case es.reserved():
		s.Kind = Absolute
	default:
		s.Kind, s.Section = Defined, int(es.section)
	}
	return nil
}

// mappingSymbol reports whether LLVM treats a symbol of this name as a marker of
// code and data instead of a name of the program.
func (f *File) mappingSymbol(name []byte) bool {
	switch f.Machine {
	case elf.MachineAArch64:
		return bytes.HasPrefix(name, []byte("$d")) || bytes.HasPrefix(name, []byte("$x"))
	case elf.MachineARM:
		return len(name) == 0 || len(name) > 1 && name[0] == '$' && (name[1] == 'd' || name[1] == 't' || name[1] == 'a')
	case elf.MachineRISCV:
		return len(name) == 0 || bytes.HasPrefix(name, []byte("$d")) || bytes.HasPrefix(name, []byte("$x"))
	}
	return false
}
