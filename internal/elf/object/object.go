// Package object reads and rewrites object files: the sections and symbols of
// ELF files (32 and 64 bits, both byte orders, any type), of COFF objects and of
// PE images. ParseLinked also reads the segments and dynamic symbols of ELF files.
//
// Files are read from an untrusted, mapped []byte: every count, offset and
// string is checked before it is used, and nothing is copied. The output of
// Rewrite and RemoveSections has the layout of llvm-objcopy 22,
// byte for byte, so that bundles of this package and of LLVM are identical
// files. Builder writes new ELF objects.
package object

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// File is a parsed ELF or COFF file. It refers to the bytes it was parsed from.
type File struct {
	// Format is the result of Identify.
	Format Format
	// Machine is ELF's e_machine or COFF's machine type.
	Machine uint16
	// Is64 and BigEndian describe ELF files; COFF is always little-endian.
	Is64, BigEndian bool
	// Sections holds the section headers in file order. For ELF, index 0 is the
	// null section; for COFF, the section numbered n by symbols is Sections[n-1].
	Sections []Section
	// Segments holds the program headers of an ELF file that ReadSegments read.
	Segments []elf.Segment

	data []byte
	elf  *elfHeader  // nil for COFF
	coff *coffHeader // nil for ELF
}

// Section is one section header, of COFF in terms of ELF. Offsets and sizes are in bytes.
type Section struct {
	// Name is a slice of the file's bytes.
	Name []byte
	// SectionHeader has the fields of ELF. In COFF, Flags are the characteristics, and
	// Type, Link, Info and EntSize are 0. Data checks Offset and Size.
	elf.SectionHeader

	coff *coffSectionHeader
}

// InFile returns the number of bytes that a section of an ELF file has in the file.
func (s *Section) InFile() uint64 {
	if s.Type == elf.ShtNobits || s.Type == elf.ShtNull {
		return 0
	}
	return s.Size
}

// Parse reads the headers of an ELF file, a COFF object or a PE image. It fails
// if they are inconsistent: the section table and the section names must be
// inside the file. Contents are checked on access.
func Parse(data []byte) (*File, error) { return parse(data, nil) }

// parse is Parse with memory for the sections of an ELF file, if it is sufficient.
func parse(data []byte, sections []Section) (*File, error) {
	f, err := open(data, sections)
	switch {
	case err != nil:
	case f.elf != nil:
		err = f.elfSectionNames()
	default:
		err = f.coffSections()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open reads as much of a file as LLVM does to recognize an object.
func open(data []byte, sections []Section) (*File, error) {
	format := Identify(data)
	switch {
	case format.IsELF():
		return openELF(data, format, sections)
	case format.IsCOFF():
		return openCOFF(data, format)
	}
	return nil, fmt.Errorf("not an object file: found %s, expected ELF or COFF", format)
}

// Data returns the contents of section i, a slice of the file. It returns nil
// for sections without contents in the file (NOBITS, uninitialised data).
func (f *File) Data(i int) ([]byte, error) {
	if i < 0 || i >= len(f.Sections) {
		return nil, fmt.Errorf("section %d does not exist: the file has %d", i, len(f.Sections))
	}
	s := &f.Sections[i]
	if s.Type == elf.ShtNobits && f.elf != nil || s.coff != nil && s.coff.RawOffset == 0 {
		return nil, nil
	}
	if s.Offset > uint64(len(f.data)) || s.Size > uint64(len(f.data))-s.Offset {
		return nil, fmt.Errorf("section %d %q: offset 0x%x + size 0x%x passes the end of the file (%d bytes)",
			i, clip(s.Name), s.Offset, s.Size, len(f.data))
	}
	return f.data[s.Offset : s.Offset+s.Size : s.Offset+s.Size], nil
}

// SymbolKind is the kind of definition of a symbol.
type SymbolKind uint8

// The kinds of symbols.
const (
	Undefined SymbolKind = iota
	Defined              // in Symbol.Section
	Absolute
	Common
)

// Symbol is one entry of the symbol table.
type Symbol struct {
	// Name is a slice of the file's bytes.
	Name []byte
	// Value and Size are as stored; COFF has no sizes.
	Value, Size uint64
	Kind        SymbolKind
	// Section is the index into File.Sections of a Defined symbol, else -1.
	Section int
	// Type is ELF's type of the symbol; 0 for COFF.
	Type byte
	// Global is set for every binding except local; for weak symbols, Weak is also
	// set.
	Global, Weak bool
	// Special marks symbols that are not names of the program: the null
	// symbol, files, sections, mapping symbols.
	Special bool
}

// InArchiveIndex reports whether LLVM's archive writer lists s in the symbol
// index: s is global or weak, defined or common, and not special.
func (s *Symbol) InArchiveIndex() bool {
	return s.Global && !s.Special && s.Kind != Undefined
}

// Symbols iterates over the symbol table in file order (ELF: .symtab, not
// .dynsym). An error ends the sequence.
func (f *File) Symbols() iter.Seq2[Symbol, error] {
	if f.coff != nil {
		return f.coffSymbols
	}
	return f.elfSymbols
}

// usedSections is a pool of memory for the sections of ArchiveSymbols.
var usedSections = sync.Pool{New: func() any { return new([]Section) }}

// ArchiveSymbols returns the names that data contributes to the symbol index of
// an archive, in symbol table order, as LLVM's archive writer does. It returns
// none for files that are neither ELF nor COFF (for bitcode, see package
// bitcode). An archive may have many members with few symbols, so it allocates
// little.
func ArchiveSymbols(data []byte) ([]string, error) {
	format := Identify(data)
	if format == COFFImport {
		return importSymbols(data)
	}
	if !format.IsELF() && !format.IsCOFF() {
		return nil, nil
	}
	sections := usedSections.Get().(*[]Section)
	f, err := parse(data, *sections)
	if err != nil {
		return nil, err
	}
	var few [16][]byte
	names, total := few[:0], 0
	add := func(s Symbol, fault error) bool {
		if err = fault; err == nil && s.InArchiveIndex() {
			names = append(names, s.Name)
			total += len(s.Name)
		}
		return err == nil
	}
	if f.coff != nil { // not by Symbols, for which names would be allocated
		f.coffSymbols(add)
	} else {
		f.elfSymbols(add)
		*sections = f.Sections
		clear(*sections) // the file may not stay mapped
		usedSections.Put(sections)
	}
	if err != nil {
		return nil, err
	}
	if uint64(total) > maxNames(len(data)) {
		return nil, fmt.Errorf("symbol names overlap: %d bytes of names in a file of %d bytes", total, len(data))
	}
	return texts(names, total), nil
}

// texts returns names of total bytes as strings that share one allocation.
func texts(names [][]byte, total int) []string {
	var all strings.Builder
	all.Grow(total)
	list := make([]string, len(names))
	for i, name := range names {
		start := all.Len()
		all.Write(name)
		list[i] = all.String()[start:]
	}
	return list
}

// maxNames limits the total length of the names of a file: names may share bytes
// of a table, so that a small crafted table can contain many long names.
func maxNames(fileSize int) uint64 { return 16*uint64(fileSize) + 64<<20 }

// clip shortens a name for a message: names come from the file and may be long.
func clip(name []byte) []byte {
	const most = 100
	if len(name) <= most {
		return name
	}
	return append(bytes.Clone(name[:most]), "..."...)
}

// stringTable finds NUL-terminated strings in untrusted bytes. Without a NUL in
// a long range, every lookup would scan the whole table, so the table records
// the first NUL at or after the start of each block.
type stringTable struct {
	data []byte // ends with NUL
	next []uint64
}

const stringBlock = 4096

func newStringTable(data []byte) *stringTable {
	t := &stringTable{data: data}
	if len(data) > 16*stringBlock {
		t.next = make([]uint64, (len(data)+stringBlock-1)/stringBlock+1)
		end := uint64(len(data))
		t.next[len(t.next)-1] = end
		for i := len(t.next) - 2; i >= 0; i-- {
			block := data[i*stringBlock : min((i+1)*stringBlock, len(data))]
			if n := bytes.IndexByte(block, 0); n >= 0 {
				end = uint64(i*stringBlock + n)
			}
			t.next[i] = end
		}
	}
	return t
}

// at returns the string at off, which must be inside the table.
func (t *stringTable) at(off uint64) ([]byte, bool) {
	if off >= uint64(len(t.data)) {
		return nil, false
	}
	tail := t.data[off:]
	if t.next == nil {
		if n := bytes.IndexByte(tail, 0); n >= 0 {
			tail = tail[:n]
		}
		return tail, true
	}
	block := off / stringBlock
	inBlock := tail[:min(uint64(len(tail)), (block+1)*stringBlock-off)]
	if n := bytes.IndexByte(inBlock, 0); n >= 0 {
		return tail[:n], true
	}
	return t.data[off:t.next[block+1]], true
}
