package object

import (
	"encoding/binary"
	"fmt"

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

// pieces returns the content of a section that begins at an offset in the file.
func (s *BuilderSection) pieces(at uint64, body content.Content) []content.Part {
	list := []content.Part{partAt(at, body)}
	for _, p := range s.Parts {
		list = append(list, partAt(at+uint64(p.Offset), p.Content))
	}
	return list
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
	h elfHeader
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
	return &Builder{h: elfHeader{order: binary.LittleEndian, is64: true, typ: elf.EtRel, machine: machine, version: 1}}
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
	names := NewStringTable()
	numbers, symbols, locals := b.numberSymbols()
	refs := make([]int, len(symbols))
	for i, s := range symbols {
		refs[i] = names.Add([]byte(s.Name))
	}
	headers, titles, err := b.headers(names, locals)
	if err != nil {
		return err
	}
	if err := names.Finish(); err != nil {
		return err
	}
	table := elfEncoder{h: &b.h}
	for i, s := range symbols {
		es := elfSymbol{value: s.Value, size: s.Size, info: s.Bind<<4 | s.Type, other: s.Visibility}
		table.symbol(names.Offset(refs[i]), &es, uint16(s.Section))
	}

	// Contents in the order of headers: sections, symbols, relocations, names.
	contents := make([]content.Content, len(headers))
	n := len(b.sections)
	for i := range b.sections {
		contents[i] = b.sections[i].Content
	}
	contents[n] = content.Memory(table.buf)
	for i, at := 0, n+1; i < n; i++ {
		if len(b.relocs[i]) > 0 {
			contents[at] = content.Memory(b.encodeRelocs(b.relocs[i], numbers))
			at++
		}
	}
	contents[len(contents)-1] = content.Memory(names.Bytes())

	at := b.h.ehdrSize()
	var pieces []content.Part
	for i := range headers {
		h := &headers[i]
		at = alignUp(at, h.Align, 0)
		if h.Offset = at; h.Type != elf.ShtNobits {
			section := BuilderSection{Content: contents[i]}
			if i < n {
				section = b.sections[i]
			}
			h.Size = section.size()
			pieces = append(pieces, section.pieces(at, section.Content)...)
			at += h.Size
		}
	}
	shoff := alignUp(at, 8, 0)
	count, strtab := len(headers)+1, uint32(len(headers))
	end := elfEncoder{h: &b.h}
	end.nullSection(count, strtab)
	for i := range headers {
		end.section(&headers[i], names.Offset(titles[i]))
	}
	pieces = append(pieces, partAt(shoff, content.Memory(end.buf)))
	head := elfEncoder{h: &b.h}
	head.header(0, shoff, 0, count, strtab)
	pieces = append([]content.Part{{Content: content.Memory(head.buf)}}, pieces...)
	return content.WriteParts(out, pieces, 0)
}

// numberSymbols orders the symbols, with the null symbol and the local ones
// first. It returns their numbers by SymbolID and the number of local symbols.
func (b *Builder) numberSymbols() (numbers []uint32, symbols []BuilderSymbol, locals uint32) {
	numbers = make([]uint32, len(b.symbols)+1)
	symbols = append(symbols, BuilderSymbol{})
	for _, local := range []bool{true, false} {
		for i, s := range b.symbols {
			if (s.Bind == elf.BindLocal) == local {
				numbers[i+1] = uint32(len(symbols))
				symbols = append(symbols, s)
			}
		}
		if local {
			locals = uint32(len(symbols))
		}
	}
	return numbers, symbols, locals
}

// headers returns the section headers without offsets: the sections, .symtab, a
// relocation section for each section with relocations, and .strtab.
func (b *Builder) headers(names *StringTable, locals uint32) (headers []Section, titles []int, err error) {
	add := func(name string, s Section) {
		titles = append(titles, names.Add([]byte(name)))
		headers = append(headers, s)
	}
	var relocated uint32
	for i := range b.sections {
		s := &b.sections[i]
		if s.Type == elf.ShtNobits && s.size() > 0 {
			return nil, nil, fmt.Errorf("section %q: %d bytes of contents in a section without contents", s.Name, s.size())
		}
		if s.Flags&elf.ShfRetain != 0 {
			b.h.osabi = 3 // ELFOSABI_GNU, which the flag requires
		}
		if len(b.relocs[i]) > 0 {
			relocated++
		}
		add(s.Name, Section{Type: s.Type, Flags: s.Flags, Align: max(s.Align, 1), EntSize: s.EntSize, Size: s.Size})
	}
	symtab := uint32(len(b.sections) + 1)
	strtab := symtab + relocated + 1
	if strtab >= elf.ShnLoReserve {
		return nil, nil, fmt.Errorf("%d sections, expected fewer than %d", strtab, elf.ShnLoReserve)
	}
	add(".symtab", Section{Type: elf.ShtSymtab, Align: 8, EntSize: b.h.symSize(), Link: strtab, Info: locals})
	for i := range b.sections {
		if len(b.relocs[i]) > 0 {
			const infoLink = 0x40
			add(".rela"+b.sections[i].Name, Section{
				Type: elf.ShtRela, Flags: infoLink, Align: 8, EntSize: b.h.relaSize(), Link: symtab, Info: uint32(i + 1),
			})
		}
	}
	add(".strtab", Section{Type: elf.ShtStrtab, Align: 1})
	return headers, titles, nil
}

func (b *Builder) encodeRelocs(relocs []builderReloc, numbers []uint32) []byte {
	e := elfEncoder{h: &b.h}
	for _, r := range relocs {
		e.addr(r.offset)
		e.addr(uint64(numbers[r.symbol])<<32 | uint64(r.typ))
		e.addr(uint64(r.addend))
	}
	return e.buf
}
