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
// the flags for allocation, writing and execution. COFF does not store the size and
// the visibility of symbols. The bytes depend only on the calls.
type COFFBuilder struct {
	parts
	fallbacks map[SymbolID]SymbolID // of weak symbols
}

// WeakSymbol adds a symbol that resolves to fallback unless an object defines
// it.
func (b *COFFBuilder) WeakSymbol(name string, fallback SymbolID) SymbolID {
	weak := b.Symbol(BuilderSymbol{Name: name, Bind: elf.BindWeak})
	if b.fallbacks == nil {
		b.fallbacks = make(map[SymbolID]SymbolID)
	}
	b.fallbacks[weak] = fallback
	return weak
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
	var pieces []content.Part
	at := uint64(coffHeaderSize + coffSectionSize*len(b.sections))
	place := func(c content.Content) uint32 {
		if c.Len() == 0 {
			return 0
		}
		start := at
		pieces = append(pieces, partAt(start, c))
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
		head = (&coffSectionHeader{
			Name: coffName([]byte(s.Name), names, titles[i]), RawSize: uint32(size), RawOffset: start,
			RelocsAt: place(content.Memory(encoded)), Relocs: uint16(len(relocs)), Characteristics: s.coffCharacteristics(),
		}).append(head)
		if at > maxCOFFSize || size > maxCOFFSize {
			return fmt.Errorf("section %q: an object of more than 4 GiB does not fit COFF", s.Name)
		}
	}
	le.PutUint32(head[8:], uint32(at))
	symbols := b.encodeSymbols(names, titles, refs, numbers)
	le.PutUint32(head[12:], uint32(len(symbols)/coffSymbolSize))
	place(content.Memory(symbols))
	place(content.Memory(names.Bytes()))
	return content.WriteParts(out, append([]content.Part{{Content: content.Memory(head)}}, pieces...), 0)
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
		if b.fallbacks[SymbolID(i+1)] != 0 {
			next++
		}
	}
	return numbers
}

func (b *COFFBuilder) encodeSymbols(names *StringTable, titles, refs []int, numbers []uint32) []byte {
	le := binary.LittleEndian
	var out []byte
	symbol := func(name string, ref int, value uint32, section, typ uint16, class, auxs byte) {
		out = appendCOFFName(out, []byte(name), names, ref)
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
		fallback := b.fallbacks[SymbolID(i+1)]
		if fallback == 0 {
			symbol(s.Name, refs[i], uint32(s.Value), uint16(s.Section), typ, class, 0)
			continue
		}
		symbol(s.Name, refs[i], 0, 0, typ, symClassWeakExternal, 1)
		const alias = 3
		out = le.AppendUint32(out, numbers[fallback])
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
