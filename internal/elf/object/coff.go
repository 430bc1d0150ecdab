package object

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Values of the COFF format.
const (
	coffHeaderSize    = 20
	bigObjHeaderSize  = 56
	coffSectionSize   = 40
	coffRelocSize     = 10
	coffSymbolSize    = 18
	coffBigSymbolSize = 20
	coffNameSize      = 8
	coffMaxSections   = 65279 // more require the bigobj form

	scnTypeNoPad       = 0x00000008
	scnCode            = 0x00000020
	scnInitializedData = 0x00000040
	scnLnkRemove       = 0x00000800
	scnAlign8          = 0x00400000
	scnRelocOverflow   = 0x01000000
	scnMemDiscardable  = 0x02000000
	scnMemExecute      = 0x20000000
	scnMemRead         = 0x40000000
	scnMemWrite        = 0x80000000

	symClassExternal     = 2
	symClassStatic       = 3
	symClassFile         = 103
	symClassSection      = 104
	symClassWeakExternal = 105

	symUndefined = 0
	symAbsolute  = -1

	comdatAssociative    = 5
	weakExternAlias      = 3
	coffSectionNameLimit = 10_000_000 // offsets from this value are written in base 64
)

// coffHeader is the file header of a COFF object, plain or bigobj, or PE image.
type coffHeader struct {
	bigObj, image   bool
	machine         uint16
	timestamp       uint32
	characteristics uint16
	symbolsAt       uint32
	symbols         uint32
	sectionsAt      uint64
	strings         *stringTable // includes its size field; nil if unreadable
	hasSymbols      bool         // the symbol table is inside the file
}

func (h *coffHeader) symbolSize() uint64 {
	return pick(h.bigObj, coffBigSymbolSize, coffSymbolSize)
}

// coffSectionHeader is a section header in its stored form.
type coffSectionHeader struct {
	Name                        [coffNameSize]byte
	VirtualSize, VirtualAddress uint32
	RawSize, RawOffset          uint32
	RelocsAt, LinesAt           uint32
	Relocs, Lines               uint16
	Characteristics             uint32
}

// append appends the header to b.
func (h *coffSectionHeader) append(b []byte) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, h)
	return b
}

// openCOFF reads the file header and checks that the section headers are inside
// the file.
func openCOFF(data []byte, format Format) (*File, error) {
	h := &coffHeader{}
	size := uint64(len(data))
	var at uint64
	le := binary.LittleEndian
	if format == PE {
		h.image = true
		at = uint64(le.Uint32(data[0x3c:])) + 4
	}
	if size < coffHeaderSize || at > size-coffHeaderSize {
		return nil, fmt.Errorf("coff header at byte 0x%x passes the end of the file (%d bytes)", at, size)
	}
	var sections uint64
	if b := data[at:]; !h.image && len(b) >= bigObjHeaderSize && le.Uint16(b) == 0 && le.Uint16(b[2:]) == 0xffff &&
		le.Uint16(b[4:]) >= 2 && bytes.Equal(b[12:28], bigObjUUID) {
		h.bigObj = true
		h.machine, h.timestamp = le.Uint16(b[6:]), le.Uint32(b[8:])
		sections = uint64(le.Uint32(b[44:]))
		h.symbolsAt, h.symbols = le.Uint32(b[48:]), le.Uint32(b[52:])
		h.sectionsAt = bigObjHeaderSize
	} else {
		h.machine, sections, h.timestamp = le.Uint16(b), uint64(le.Uint16(b[2:])), le.Uint32(b[4:])
		h.symbolsAt, h.symbols = le.Uint32(b[8:]), le.Uint32(b[12:])
		h.characteristics = le.Uint16(b[18:])
		h.sectionsAt = at + coffHeaderSize + uint64(le.Uint16(b[16:]))
	}
	if h.sectionsAt > size || sections > (size-h.sectionsAt)/coffSectionSize {
		return nil, fmt.Errorf("section header table at byte 0x%x: %d headers of %d bytes pass the end of the file (%d bytes)",
			h.sectionsAt, sections, coffSectionSize, size)
	}
	if h.symbolsAt == 0 && h.symbols != 0 {
		return nil, fmt.Errorf("coff header: %d symbols but no symbol table", h.symbols)
	}
	h.openStrings(data)
	return &File{Format: format, Machine: h.machine, data: data, coff: h, Sections: make([]Section, sections)}, nil
}

// coffSections decodes the section headers.
func (f *File) coffSections() error {
	headers := make([]coffSectionHeader, len(f.Sections))
	for i := range f.Sections {
		at := f.coff.sectionsAt + uint64(i)*coffSectionSize
		headers[i] = decodeCOFFSection(f.data[at:])
		if err := f.coffSection(i, at, &headers[i]); err != nil {
			return err
		}
	}
	return nil
}

// openStrings finds the string table after the symbols. With a damaged table,
// the file has no symbols and no long names, as in LLVM.
func (h *coffHeader) openStrings(data []byte) {
	size := uint64(len(data))
	at := uint64(h.symbolsAt) + uint64(h.symbols)*h.symbolSize()
	if h.symbolsAt == 0 || at > size || size-at < 4 {
		return
	}
	n := max(uint64(binary.LittleEndian.Uint32(data[at:])), 4)
	if n > size-at || n > 4 && data[at+n-1] != 0 {
		return
	}
	h.hasSymbols = true
	h.strings = newStringTable(data[at : at+n])
}

func decodeCOFFSection(b []byte) (s coffSectionHeader) {
	le := binary.LittleEndian
	copy(s.Name[:], b)
	s.VirtualSize, s.VirtualAddress = le.Uint32(b[8:]), le.Uint32(b[12:])
	s.RawSize, s.RawOffset = le.Uint32(b[16:]), le.Uint32(b[20:])
	s.RelocsAt, s.LinesAt = le.Uint32(b[24:]), le.Uint32(b[28:])
	s.Relocs, s.Lines = le.Uint16(b[32:]), le.Uint16(b[34:])
	s.Characteristics = le.Uint32(b[36:])
	return s
}

// coffSection sets section i, whose header is at an offset.
func (f *File) coffSection(i int, at uint64, h *coffSectionHeader) error {
	name := f.data[at : at+coffNameSize]
	if n := bytes.IndexByte(name, 0); n >= 0 {
		name = name[:n]
	}
	if len(name) > 0 && name[0] == '/' {
		off, ok := coffNameOffset(name[1:])
		long, found := f.coff.string(off)
		if !ok || !found {
			return fmt.Errorf("section %d of %d at byte 0x%x: its name %q is not an offset into the string table",
				i+1, len(f.Sections), at, name)
		}
		name = long
	}
	size := h.RawSize
	if f.coff.image {
		size = min(size, h.VirtualSize)
	}
	align := uint64(16)
	if shift := h.Characteristics >> 20 & 0xf; h.Characteristics&scnTypeNoPad != 0 {
		align = 1
	} else if shift > 0 {
		align = 1 << (shift - 1)
	}
	f.Sections[i] = Section{Name: name, coff: h, SectionHeader: elf.SectionHeader{
		Flags: uint64(h.Characteristics), Addr: uint64(h.VirtualAddress), Offset: uint64(h.RawOffset), Size: uint64(size), Align: align,
	}}
	return nil
}

// coffNameOffset decodes the part of a long section name after the slash:
// decimal digits, or a second slash and digits of base 64.
func coffNameOffset(s []byte) (uint64, bool) {
	var v uint64
	if len(s) > 0 && s[0] == '/' {
		for _, c := range s[1:] {
			d := bytes.IndexByte([]byte(base64Digits), c)
			if d < 0 {
				return 0, false
			}
			v = v*64 + uint64(d)
		}
		return v, true
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, len(s) > 0
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// string returns the string at off in the string table.
func (h *coffHeader) string(off uint64) ([]byte, bool) {
	if h.strings == nil || len(h.strings.data) <= 4 {
		return nil, false
	}
	return h.strings.at(off)
}

// coffSymbol is a symbol record with its auxiliary records.
type coffSymbol struct {
	name    []byte
	value   uint32
	section int32 // from 1; 0 and below have other meanings
	typ     uint16
	class   byte
	aux     []byte // the following records, symbolSize each
	auxs    byte
}

// coffSymbolAt decodes record i and its auxiliary records.
func (f *File) coffSymbolAt(i uint32) (s coffSymbol, err error) {
	h, le := f.coff, binary.LittleEndian
	at := uint64(h.symbolsAt) + uint64(i)*h.symbolSize()
	b := f.data[at:]
	if le.Uint32(b) == 0 {
		var ok bool
		if s.name, ok = h.string(uint64(le.Uint32(b[4:]))); !ok {
			return s, fmt.Errorf("symbol %d at byte 0x%x: name offset 0x%x lies outside the string table", i, at, le.Uint32(b[4:]))
		}
	} else {
		s.name = b[:coffNameSize:coffNameSize]
		if n := bytes.IndexByte(s.name, 0); n >= 0 {
			s.name = s.name[:n]
		}
	}
	s.value = le.Uint32(b[8:])
	if h.bigObj {
		s.section = int32(le.Uint32(b[12:]))
		b = b[16:]
	} else {
		if s.section = int32(le.Uint16(b[12:])); s.section > coffMaxSections {
			s.section = int32(int16(s.section))
		}
		b = b[14:]
	}
	s.typ, s.class, s.auxs = le.Uint16(b), b[2], b[3]
	if uint64(s.auxs) > uint64(h.symbols)-uint64(i)-1 {
		return s, fmt.Errorf("symbol %d at byte 0x%x: %d auxiliary records pass the end of the symbol table (%d records)",
			i, at, s.auxs, h.symbols)
	}
	if s.section > 0 && uint64(s.section) > uint64(len(f.Sections)) {
		return s, fmt.Errorf("symbol %d %q: section %d does not exist, the file has %d", i, clip(s.name), s.section, len(f.Sections))
	}
	start := at + h.symbolSize()
	s.aux = f.data[start : start+uint64(s.auxs)*h.symbolSize()]
	return s, nil
}

// sectionDefinition reports whether the first auxiliary record defines a section.
func (s *coffSymbol) sectionDefinition() bool { return s.auxs > 0 && s.class == symClassStatic }

// weakExternal reports whether the first auxiliary record refers to a fallback.
func (s *coffSymbol) weakExternal() bool { return s.auxs > 0 && s.class == symClassWeakExternal }

func (f *File) coffSymbols(yield func(Symbol, error) bool) {
	if !f.coff.hasSymbols {
		return
	}
	for i := uint32(0); i < f.coff.symbols; {
		cs, err := f.coffSymbolAt(i)
		if err != nil {
			yield(Symbol{}, err)
			return
		}
		if !yield(cs.symbol(), nil) {
			return
		}
		i += 1 + uint32(cs.auxs)
	}
}

func (cs *coffSymbol) symbol() Symbol {
	external, weak := cs.class == symClassExternal, cs.class == symClassWeakExternal
	s := Symbol{
		Name: cs.name, Value: uint64(cs.value), Section: -1,
		Global: external || weak, Weak: weak,
		Special: cs.class == symClassFile || cs.auxs > 0 &&
			(cs.class == symClassStatic || external && cs.section == symAbsolute),
	}
	switch {
	case cs.section > 0:
		s.Kind, s.Section = Defined, int(cs.section)-1
	case cs.section < 0:
		s.Kind = Absolute
	case weak:
		// An alias of another symbol counts as a definition.
		if cs.auxs == 0 || binary.LittleEndian.Uint32(cs.aux[4:]) == weakExternAlias {
			s.Kind = Defined
		}
	case cs.value != 0 && (external || cs.class == symClassSection):
		s.Kind = Common
	case !external:
		s.Kind = Absolute
	}
	return s
}

// importSymbols returns the names that a short import object defines.
func importSymbols(data []byte) ([]string, error) {
	if len(data) < coffHeaderSize {
		return nil, fmt.Errorf("import header: found %d bytes, expected %d", len(data), coffHeaderSize)
	}
	name, _, ok := bytes.Cut(data[coffHeaderSize:], []byte{0})
	if !ok {
		return nil, fmt.Errorf("import object: the symbol name at byte 0x%x does not end", coffHeaderSize)
	}
	names := []string{"__imp_" + string(name)}
	const importData = 1
	if binary.LittleEndian.Uint16(data[18:])&3 != importData {
		names = append(names, string(name))
	}
	return names, nil
}
