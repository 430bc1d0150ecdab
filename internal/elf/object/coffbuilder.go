package object

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
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
	if len(b.sections) >= coffMaxSections {
		return fmt.Errorf("%d sections, expected fewer than %d", len(b.sections), coffMaxSections)
	}
	r := &coffRewriter{
		f: &File{coff: &coffHeader{machine: coffAMD64}}, strings: newCOFFStringTable(), maxSize: maxCOFFSize, maxNames: math.MaxInt64,
	}
	for i := range b.sections {
		s, err := b.section(i)
		if err != nil {
			return err
		}
		r.sections = append(r.sections, s)
		r.symbols = append(r.symbols, s.ownSymbol())
	}
	r.byRecord = make([]*outCOFFSymbol, len(b.symbols)+1) // by SymbolID
	for i := range b.symbols {
		r.byRecord[i+1] = b.symbols[i].coffSymbol()
	}
	for weak, fallback := range b.fallbacks {
		s := r.byRecord[weak]
		s.class, s.auxs, s.aux, s.weakOf = symClassWeakExternal, 1, make([]byte, coffSymbolSize), r.byRecord[fallback]
		binary.LittleEndian.PutUint32(s.aux[4:], weakExternAlias)
	}
	r.symbols = append(r.symbols, r.byRecord[1:]...)
	if err := r.number(); err != nil {
		return err
	}
	return r.finish(out)
}

// section returns a section to write, whose relocations have SymbolIDs.
func (b *COFFBuilder) section(i int) (*outCOFFSection, error) {
	s, le := &b.sections[i], binary.LittleEndian
	size := s.Size + s.size()
	if size > maxCOFFSize {
		return nil, fmt.Errorf("section %q: an object of more than 4 GiB does not fit COFF", s.Name)
	}
	to := &outCOFFSection{title: []byte(s.Name), parts: s.Parts, virtual: s.Type == elf.ShtNobits}
	to.RawSize, to.Characteristics = uint32(size), s.coffCharacteristics()
	for _, r := range b.relocs[i] {
		to.relocs = le.AppendUint32(to.relocs, uint32(r.offset))
		to.relocs = le.AppendUint32(to.relocs, uint32(r.symbol))
		to.relocs = le.AppendUint16(to.relocs, uint16(r.typ))
	}
	var err error
	to.content, err = b.content(i)
	return to, err
}

// ownSymbol returns the symbol that describes a new section.
func (s *outCOFFSection) ownSymbol() *outCOFFSymbol {
	aux := make([]byte, coffSymbolSize)
	binary.LittleEndian.PutUint32(aux, s.RawSize)
	binary.LittleEndian.PutUint16(aux[4:], uint16(min(len(s.relocs)/coffRelocSize, 0xffff)))
	return &outCOFFSymbol{coffSymbol: coffSymbol{name: s.title, class: symClassStatic, aux: aux, auxs: 1}, in: s}
}

// coffSymbol returns the symbol to write.
func (s *BuilderSymbol) coffSymbol() *outCOFFSymbol {
	to := &outCOFFSymbol{coffSymbol: coffSymbol{name: []byte(s.Name), value: uint32(s.Value), section: int32(s.Section), class: symClassExternal}}
	if s.Bind == elf.BindLocal {
		to.class = symClassStatic
	}
	if s.Type == elf.TypeFunc {
		to.typ = 0x20
	}
	return to
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
			data = slices.Clone(s.Content.Mapped(guard.Inside))
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
