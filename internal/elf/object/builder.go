package object

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// SectionID and SymbolID identify sections and symbols added to a Builder. The
// zero SectionID is no section; the zero SymbolID is no symbol.
type (
	SectionID int
	SymbolID  int
)

// SectionAbs is the section of absolute symbols of a Builder.
const SectionAbs SectionID = 0xfff1

// BuilderSection describes a section of a new object.
type BuilderSection struct {
	Name    string
	Type    uint32
	Flags   uint64
	Align   uint64 // in bytes; 0 means 1
	EntSize uint64
	// Content is written unchanged; it is not copied through memory.
	Content content.Content
	// Parts are more content, in the order of their offsets; zeros fill the gaps.
	Parts []content.Part
	// Size is the size in memory of an elf.ShtNobits section, which has no content.
	Size uint64
}

// size returns the number of bytes in the file.
func (s *BuilderSection) size() uint64 {
	if n := len(s.Parts); n > 0 {
		last := &s.Parts[n-1]
		return uint64(last.Offset + last.Content.Len())
	}
	return uint64(s.Content.Len())
}

// BuilderSymbol describes a symbol of a new object.
type BuilderSymbol struct {
	Name       string
	Section    SectionID // 0: undefined
	Value      uint64    // offset in the section
	Size       uint64
	Bind       byte
	Type       byte
	Visibility byte
}

// Builder builds a relocatable 64-bit little-endian ELF object. The bytes
// depend only on the calls.
type Builder struct {
	parts
	machine uint16
}

// parts are the sections, symbols and relocations of a new object.
type parts struct {
	sections []BuilderSection
	symbols  []BuilderSymbol
	relocs   [][]builderReloc // by section
}

type builderReloc struct {
	offset uint64
	typ    uint32
	symbol SymbolID
	addend int64
}

// NewBuilder returns a Builder for elf.MachineX8664 or elf.MachineAArch64.
func NewBuilder(machine uint16) *Builder {
	return &Builder{machine: machine}
}

// Section adds a section. Sections keep the order of the calls.
func (b *parts) Section(s BuilderSection) SectionID {
	b.sections = append(b.sections, s)
	b.relocs = append(b.relocs, nil)
	return SectionID(len(b.sections))
}

// Symbol adds a symbol.
func (b *parts) Symbol(s BuilderSymbol) SymbolID {
	b.symbols = append(b.symbols, s)
	return SymbolID(len(b.symbols))
}

// Relocate adds a relocation of the given machine type to a section: at offset,
// against symbol plus addend. COFFBuilder stores the addend in the content of the
// section, which must be in memory.
func (b *parts) Relocate(section SectionID, offset uint64, typ uint32, symbol SymbolID, addend int64) {
	b.relocs[section-1] = append(b.relocs[section-1], builderReloc{offset, typ, symbol, addend})
}

// Write computes the layout of the object and writes it: the sections, the
// symbol table, the relocations, the names and the section headers.
func (b *Builder) Write(out content.Sink) error {
	h := &elfHeader{order: binary.LittleEndian, is64: true, typ: elf.EtRel, machine: b.machine, version: 1}
	r := &elfRewriter{
		h: h, maxSize: math.MaxInt64, maxNames: math.MaxInt64,
		ehdr: &outSegment{Segment: elf.Segment{FileSize: h.ehdrSize()}}, phdrs: &outSegment{index: 1},
	}
	for i := range b.sections {
		s := &b.sections[i]
		if s.Type == elf.ShtNobits && s.size() > 0 {
			return fmt.Errorf("section %q: %d bytes of contents in a section without contents", s.Name, s.size())
		}
		if s.Flags&elf.ShfRetain != 0 {
			h.osabi = 3 // ELFOSABI_GNU, which the flag requires
		}
		r.newSection(roleNew, s.Name, elf.SectionHeader{Type: s.Type, Flags: s.Flags, Align: max(s.Align, 1), EntSize: s.EntSize, Size: s.Size + s.size()})
		r.sections[i].content, r.sections[i].parts = s.Content, s.Parts
	}
	r.symtab = r.newSection(roleSymtab, ".symtab", elf.SectionHeader{Type: elf.ShtSymtab})
	r.symbols = make([]outSymbol, len(b.symbols)+1)
	for i, s := range b.symbols {
		to := &r.symbols[i+1]
		to.elfSymbol = elfSymbol{name: []byte(s.Name), value: s.Value, size: s.Size, info: s.Bind<<4 | s.Type, other: s.Visibility, shndx: uint16(s.Section)}
		if !to.reserved() && s.Section > 0 {
			to.in = r.sections[s.Section-1]
		}
	}
	if err := r.orderSymbols(); err != nil {
		return err
	}
	for i, relocs := range b.relocs {
		if len(relocs) > 0 {
			const infoLink = 0x40
			s := r.newSection(roleReloc, ".rela"+b.sections[i].Name, elf.SectionHeader{Type: elf.ShtRela, Flags: infoLink})
			s.linked, s.applies = r.symtab, r.sections[i]
			s.content = content.Memory(r.encodeNewRelocs(relocs))
			s.Size = uint64(s.content.Len())
		}
	}
	r.names = r.newSection(roleStrings, ".strtab", elf.SectionHeader{Type: elf.ShtStrtab, Align: 1})
	r.names.strings, r.symtab.linked = NewStringTable(), r.names
	if n := len(r.sections); n >= elf.ShnLoReserve {
		return fmt.Errorf("%d sections, expected fewer than %d", n, elf.ShnLoReserve)
	}
	return r.finish(out)
}

// newSection appends a section that the input does not have.
func (r *elfRewriter) newSection(role sectionRole, name string, header elf.SectionHeader) *outSection {
	s := &outSection{Section: Section{Name: []byte(name), SectionHeader: header}, role: role, place: math.MaxUint64}
	r.sections = append(r.sections, s)
	return s
}

// encodeNewRelocs encodes relocations whose symbols are numbered from 1, as in symbols.
func (r *elfRewriter) encodeNewRelocs(relocs []builderReloc) []byte {
	e := elfEncoder{h: r.h}
	for _, reloc := range relocs {
		e.addr(reloc.offset)
		e.addr(uint64(r.symbols[reloc.symbol].index)<<32 | uint64(reloc.typ))
		e.addr(uint64(reloc.addend))
	}
	return e.buf
}
