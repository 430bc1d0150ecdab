package object

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// Relocations of COFF for x86-64.
const (
	COFFAddr64  = 1
	COFFAddr32  = 3 // from the start of the image
	coffAMD64   = 0x8664
	maxCOFFSize = 1<<32 - 1
)

// COFFBuilder builds a relocatable COFF object for x86-64. Sections and symbols
// are described in terms of ELF. For a section, it uses the type elf.ShtNobits and
// the flags for allocation, writing and execution. The bytes depend only on the
// calls.
type COFFBuilder struct {
	sections []BuilderSection
	symbols  []coffBuilderSymbol
	relocs   [][]builderReloc // by section
}

type coffBuilderSymbol struct {
	BuilderSymbol
	fallback SymbolID // of a weak symbol
}

// Section adds a section. Sections keep the order of the calls.
func (b *COFFBuilder) Section(s BuilderSection) SectionID {
	b.sections = append(b.sections, s)
	b.relocs = append(b.relocs, nil)
	return SectionID(len(b.sections))
}

// Symbol adds a symbol. COFF does not store size and visibility.
func (b *COFFBuilder) Symbol(s BuilderSymbol) SymbolID {
	b.symbols = append(b.symbols, coffBuilderSymbol{BuilderSymbol: s})
	return SymbolID(len(b.symbols))
}

// WeakSymbol adds a symbol that resolves to fallback unless an object defines
// it.
func (b *COFFBuilder) WeakSymbol(name string, fallback SymbolID) SymbolID {
	b.symbols = append(b.symbols, coffBuilderSymbol{BuilderSymbol{Name: name, Bind: elf.BindWeak}, fallback})
	return SymbolID(len(b.symbols))
}

// Relocate adds a relocation to a section: at offset, against symbol plus addend.
// The addend is stored in the content of the section, which must be in memory.
func (b *COFFBuilder) Relocate(section SectionID, offset uint64, typ uint32, symbol SymbolID, addend int64) {
	b.relocs[section-1] = append(b.relocs[section-1], builderReloc{offset, typ, symbol, addend})
}

// Write computes the layout of the object and writes it: the headers, each
// section with its relocations, the symbols and the names.
func (b *COFFBuilder) Write(out content.Sink) error {
	le := binary.LittleEndian
	names := newCOFFStringTable()
	titles, refs := make([]int, len(b.sections)), make([]int, len(b.symbols))
	for i := range b.sections {
		if len(b.sections[i].Name) > coffNameSize {
			titles[i] = names.addFirst([]byte(b.sections[i].Name))
		}
	}
	for i := range b.symbols {
		if len(b.symbols[i].Name) > coffNameSize {
			refs[i] = names.Add([]byte(b.symbols[i].Name))
		}
	}
	if err := names.Finish(); err != nil {
		return err
	}
	numbers := b.numberSymbols()

	head := le.AppendUint16(nil, coffAMD64)
	head = le.AppendUint16(head, uint16(len(b.sections)))
	head = append(head, make([]byte, coffHeaderSize-4)...) // the rest follows
	var pieces []piece
	at := uint64(coffHeaderSize + coffSectionSize*len(b.sections))
	place := func(c content.Content) uint32 {
		if c.Len() == 0 {
			return 0
		}
		start := at
		pieces = append(pieces, piece{start, c})
		at += uint64(c.Len())
		return uint32(start)
	}
	for i := range b.sections {
		s, relocs := &b.sections[i], b.relocs[i]
		data, err := b.content(i)
		if err != nil {
			return err
		}
		if len(relocs) > 0xfffe || len(b.sections) >= coffMaxSections {
			return fmt.Errorf("section %q: too many relocations, or sections", s.Name)
		}
		var name [coffNameSize]byte
		copy(name[:], s.Name)
		if len(s.Name) > coffNameSize {
			name = encodeCOFFName(names.Offset(titles[i]))
		}
		var encoded []byte
		for _, r := range relocs {
			encoded = le.AppendUint32(encoded, uint32(r.offset))
			encoded = le.AppendUint32(encoded, numbers[r.symbol])
			encoded = le.AppendUint16(encoded, uint16(r.typ))
		}
		size, start := s.Size, uint32(0)
		if s.Type != elf.ShtNobits {
			if size = s.size(); size > 0 {
				start = uint32(at)
				pieces = append(pieces, s.pieces(at, data)...)
				at += size
			}
		}
		head = append(head, name[:]...)
		for _, v := range [...]uint32{0, 0, uint32(size), start, place(content.Memory(encoded)), 0} {
			head = le.AppendUint32(head, v)
		}
		head = le.AppendUint16(head, uint16(len(relocs)))
		head = le.AppendUint16(head, 0)
		head = le.AppendUint32(head, s.coffCharacteristics())
		if at > maxCOFFSize || size > maxCOFFSize {
			return fmt.Errorf("section %q: an object of more than 4 GiB does not fit COFF", s.Name)
		}
	}
	le.PutUint32(head[8:], uint32(at))
	symbols := b.encodeSymbols(names, titles, refs, numbers)
	le.PutUint32(head[12:], uint32(len(symbols)/coffSymbolSize))
	place(content.Memory(symbols))
	place(content.Memory(names.Bytes()))
	return writePieces(append([]piece{{0, content.Memory(head)}}, pieces...), 0, out)
}

// content returns the content of a section, with the addends of its relocations.
func (b *COFFBuilder) content(i int) (content.Content, error) {
	s := &b.sections[i]
	if s.Type == elf.ShtNobits {
		return content.Content{}, nil
	}
	var data []byte
	for _, r := range b.relocs[i] {
		if r.addend == 0 {
			continue
		}
		if data == nil {
			data = slices.Clone(s.Content.Bytes())
		}
		if r.typ != COFFAddr64 || r.offset+8 > uint64(len(data)) {
			return content.Content{}, fmt.Errorf("section %q: the relocation at 0x%x cannot have an addend", s.Name, r.offset)
		}
		binary.LittleEndian.PutUint64(data[r.offset:], uint64(r.addend))
	}
	if data == nil {
		return s.Content, nil
	}
	return content.Memory(data), nil
}

// numberSymbols returns the record number of each symbol. The first records are
// two for each section.
func (b *COFFBuilder) numberSymbols() []uint32 {
	numbers := make([]uint32, len(b.symbols)+1)
	next := uint32(2 * len(b.sections))
	for i := range b.symbols {
		numbers[i+1] = next
		next++
		if b.symbols[i].fallback != 0 {
			next++
		}
	}
	return numbers
}

func (b *COFFBuilder) encodeSymbols(names *StringTable, titles, refs []int, numbers []uint32) []byte {
	le := binary.LittleEndian
	var out []byte
	symbol := func(name string, ref int, value uint32, section, typ uint16, class, auxs byte) {
		if len(name) > coffNameSize {
			out = le.AppendUint32(out, 0)
			out = le.AppendUint32(out, names.Offset(ref))
		} else {
			var short [coffNameSize]byte
			copy(short[:], name)
			out = append(out, short[:]...)
		}
		out = le.AppendUint32(out, value)
		out = le.AppendUint16(out, section)
		out = le.AppendUint16(out, typ)
		out = append(out, class, auxs)
	}
	for i := range b.sections {
		symbol(b.sections[i].Name, titles[i], 0, uint16(i+1), 0, symClassStatic, 1)
		size := uint32(b.sections[i].size())
		if b.sections[i].Type == elf.ShtNobits {
			size = uint32(b.sections[i].Size)
		}
		out = le.AppendUint32(out, size)
		out = le.AppendUint16(out, uint16(len(b.relocs[i])))
		out = append(out, make([]byte, 6)...)
		out = le.AppendUint16(out, uint16(i+1))
		out = append(out, make([]byte, 4)...)
	}
	for i := range b.symbols {
		s := &b.symbols[i]
		class, typ := byte(symClassExternal), uint16(0)
		if s.Bind == elf.BindLocal {
			class = symClassStatic
		}
		if s.Type == elf.TypeFunc {
			typ = 0x20
		}
		if s.fallback == 0 {
			symbol(s.Name, refs[i], uint32(s.Value), uint16(s.Section), typ, class, 0)
			continue
		}
		symbol(s.Name, refs[i], 0, 0, typ, symClassWeakExternal, 1)
		const alias = 3
		out = le.AppendUint32(out, numbers[s.fallback])
		out = le.AppendUint32(out, alias)
		out = append(out, make([]byte, coffSymbolSize-8)...)
	}
	return out
}

// coffCharacteristics returns the flags of a section in COFF.
func (s *BuilderSection) coffCharacteristics() uint32 {
	const (
		initialized, uninitialized = 0x40, 0x80
		alignment                  = 20 // bit; 1 + the logarithm
	)
	flags := uint32(scnMemRead)
	switch {
	case s.Flags&elf.ShfExec != 0:
		flags |= scnCode | scnMemExecute
	case s.Type == elf.ShtNobits:
		flags |= uninitialized
	default:
		flags |= initialized
	}
	if s.Flags&elf.ShfWrite != 0 {
		flags |= scnMemWrite
	}
	return flags | uint32(bits.TrailingZeros64(max(s.Align, 1))+1)<<alignment
}
