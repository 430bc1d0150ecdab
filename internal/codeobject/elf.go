package codeobject

import (
	"bytes"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// file is the ELF layer of a code object.
type file struct {
	data  []byte
	typ   uint16
	phdrs []phdr
	shdrs []shdr

	ordered   []symbol         // symbols that have a name and whose contents are in the file
	byName    map[uint64]int32 // by the hash of the name
	buffer    []byte           // for concatenated names
	variables int
}

type phdr struct {
	typ, flags             uint32
	offset, addr, filesize uint64
}

type shdr struct {
	name                               []byte
	typ, link                          uint32
	flags, addr, offset, size, entsize uint64
}

type symbol struct {
	name        []byte
	typ         byte
	section     uint16
	value, size uint64
}

// open reads the headers. Section names that cannot be read are empty, because
// they are used only in reports.
func open(data []byte) (*file, error) {
	if !Is(data) {
		return nil, notCodeObject(data)
	}
	f := &file{data: data, typ: u16(data[16:])}
	if err := f.readSegments(u64(data[32:]), uint64(u16(data[54:])), uint64(u16(data[56:]))); err != nil {
		return nil, err
	}
	return f, f.readSections(u64(data[40:]), uint64(u16(data[58:])), uint64(u16(data[60:])), uint64(u16(data[62:])))
}

// notCodeObject returns the error for data that is not a code object.
func notCodeObject(data []byte) error {
	return fmt.Errorf("not an AMD code object: found % x, expected a 64-bit ELF file for machine %d", data[:min(len(data), 20)], elf.MachineAMDGPU)
}

// has reports whether the file has n bytes at offset off.
func (f *file) has(off, n uint64) bool {
	size := uint64(len(f.data))
	return off <= size && n <= size-off
}

// bytes returns n bytes of the file at off, which must exist.
func (f *file) bytes(off, n uint64) []byte { return f.data[off : off+n : off+n] }

func (f *file) readSegments(off, entry, n uint64) error {
	if off == 0 || n == 0 {
		return nil
	}
	if entry != elf.SegmentSize || !f.has(off, n*elf.SegmentSize) {
		return fmt.Errorf("program headers at byte 0x%x: found %d of %d bytes in a file of %d bytes, expected headers of %d bytes inside the file", off, n, entry, len(f.data), elf.SegmentSize)
	}
	f.phdrs = make([]phdr, n)
	for i := range f.phdrs {
		b := f.bytes(off+uint64(i)*elf.SegmentSize, elf.SegmentSize)
		f.phdrs[i] = phdr{typ: u32(b), flags: u32(b[4:]), offset: u64(b[8:]), addr: u64(b[16:]), filesize: u64(b[32:])}
	}
	return nil
}

func (f *file) readSections(off, entry, n, names uint64) error {
	if off == 0 {
		return nil
	}
	if entry != elf.SectionSize || !f.has(off, elf.SectionSize) {
		return fmt.Errorf("section headers at byte 0x%x: found headers of %d bytes in a file of %d bytes, expected headers of %d bytes inside the file", off, entry, len(f.data), elf.SectionSize)
	}
	if first := f.bytes(off, elf.SectionSize); n == 0 {
		n = u64(first[32:])
	}
	if names == elf.ShnXindex {
		names = uint64(u32(f.bytes(off, elf.SectionSize)[40:]))
	}
	if n > (uint64(len(f.data))-off)/elf.SectionSize {
		return fmt.Errorf("section headers at byte 0x%x: %d headers of %d bytes pass the end of the file (%d bytes)", off, n, elf.SectionSize, len(f.data))
	}
	f.shdrs = make([]shdr, n)
	for i := range f.shdrs {
		b := f.bytes(off+uint64(i)*elf.SectionSize, elf.SectionSize)
		f.shdrs[i] = shdr{typ: u32(b[4:]), flags: u64(b[8:]), addr: u64(b[16:]), offset: u64(b[24:]), size: u64(b[32:]), link: u32(b[40:]), entsize: u64(b[56:])}
	}
	if names >= n {
		return nil
	}
	if s := f.shdrs[names]; s.typ == elf.ShtStrtab && f.has(s.offset, s.size) {
		table := f.bytes(s.offset, s.size)
		for i := range f.shdrs {
			f.shdrs[i].name = stringAt(table, uint64(u32(f.data[off+uint64(i)*elf.SectionSize:])), maxSectionName)
		}
	}
	return nil
}

// maxSectionName limits the length of stored section names, in bytes.
const maxSectionName = 256

// stringAt returns the string at off in a string table, truncated to most
// bytes, or nil if it is not inside the table.
func stringAt(table []byte, off uint64, most int) []byte {
	if off >= uint64(len(table)) {
		return nil
	}
	s := table[off:min(uint64(len(table)), off+uint64(most))]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

func (f *file) sectionList() []Section {
	var list []Section
	for i, s := range f.shdrs {
		if i > 0 && s.typ != elf.ShtNobits && s.size > 0 && f.has(s.offset, s.size) {
			list = append(list, Section{Name: s.name, Size: s.size})
		}
	}
	return list
}

// symbolTable is a table of symbols with its names.
type symbolTable struct{ entries, names []byte }

// maxName limits the length of symbol names that are read, in bytes.
const maxName = 1 << 20

// readSymbols reads the dynamic symbols, or all symbols in an object without
// dynamic ones. Stripping keeps the dynamic symbols.
func (f *file) readSymbols() error {
	t, at, err := f.symbols()
	if err != nil || t == nil {
		return err
	}
	n := len(t.entries) / elf.SymbolSize
	f.byName = make(map[uint64]int32, n)
	// Names may share bytes, but the total is limited so that a small file cannot
	// produce long lists.
	room := 16*uint64(len(t.names)) + 1<<20
	for i := range n {
		b := t.entries[i*elf.SymbolSize:]
		name, section := u32(b), u16(b[6:])
		if name == 0 || section == 0 {
			continue
		}
		s := symbol{typ: b[4] & 15, section: section, value: u64(b[8:]), size: u64(b[16:])}
		if s.name = stringAt(t.names, uint64(name), maxName); len(s.name) == 0 {
			if uint64(name) >= uint64(len(t.names)) {
				return fmt.Errorf("symbol %d at byte 0x%x: its name at 0x%x lies outside of the table of names (%d bytes)", i, at+uint64(i)*elf.SymbolSize, name, len(t.names))
			}
			continue
		}
		if uint64(len(s.name)) > room {
			return fmt.Errorf("symbol %d at byte 0x%x: the names of the symbols overlap", i, at+uint64(i)*elf.SymbolSize)
		}
		room -= uint64(len(s.name))
		f.byName[xxhash.Sum64(s.name)] = int32(len(f.ordered))
		f.ordered = append(f.ordered, s)
		local := b[4]>>4 == 0
		if s.typ == elf.TypeObject && !local && !bytes.HasSuffix(s.name, []byte(".kd")) && !bytes.HasPrefix(s.name, []byte("__hip_cuid_")) {
			f.variables++
		}
	}
	return nil
}

// symbols returns the symbol table and its offset. The table is nil if the file has no symbols.
func (f *file) symbols() (*symbolTable, uint64, error) {
	t, at, err := f.symbolsIn(elf.ShtDynsym)
	if t == nil && err == nil {
		t, at, err = f.dynamicSymbols()
	}
	if t == nil && err == nil {
		t, at, err = f.symbolsIn(elf.ShtSymtab)
	}
	return t, at, err
}

// symbolsIn finds the table of symbols in the first section of a type.
func (f *file) symbolsIn(typ uint32) (*symbolTable, uint64, error) {
	for i := range f.shdrs {
		s := &f.shdrs[i]
		if s.typ != typ {
			continue
		}
		if s.entsize != elf.SymbolSize || !f.has(s.offset, s.size) {
			return nil, 0, fmt.Errorf("symbols at byte 0x%x: found %d bytes in entries of %d in a file of %d bytes, expected entries of %d bytes inside the file", s.offset, s.size, s.entsize, len(f.data), elf.SymbolSize)
		}
		if uint64(s.link) >= uint64(len(f.shdrs)) {
			return nil, 0, fmt.Errorf("symbols at byte 0x%x: names in section %d of %d", s.offset, s.link, len(f.shdrs))
		}
		names := &f.shdrs[s.link]
		if names.typ != elf.ShtStrtab || !f.has(names.offset, names.size) {
			return nil, 0, fmt.Errorf("names of symbols at byte 0x%x: %d bytes pass the end of the file (%d bytes), or are not a string table", names.offset, names.size, len(f.data))
		}
		return &symbolTable{f.bytes(s.offset, s.size), f.bytes(names.offset, names.size)}, s.offset, nil
	}
	return nil, 0, nil
}

// dynamicSymbols finds the symbols through the dynamic segment.
func (f *file) dynamicSymbols() (*symbolTable, uint64, error) {
	var dynamic []byte
	for _, p := range f.phdrs {
		if p.typ == elf.PtDynamic {
			if !f.has(p.offset, p.filesize) {
				return nil, 0, fmt.Errorf("dynamic segment at byte 0x%x: %d bytes pass the end of the file (%d bytes)", p.offset, p.filesize, len(f.data))
			}
			dynamic = f.bytes(p.offset, p.filesize)
		}
	}
	var symtab, strtab, strsz, hash, gnu uint64
	for ; len(dynamic) >= elf.DynamicSize; dynamic = dynamic[elf.DynamicSize:] {
		value := u64(dynamic[8:])
		switch u64(dynamic) {
		case elf.DtNull:
			dynamic = nil
		case elf.DtSymtab:
			symtab = value
		case elf.DtStrtab:
			strtab = value
		case elf.DtStrsz:
			strsz = value
		case elf.DtHash:
			hash = value
		case elf.DtGNUHash:
			gnu = value
		}
		if dynamic == nil {
			break
		}
	}
	if symtab == 0 || strtab == 0 {
		return nil, 0, nil
	}
	var n uint64
	switch {
	case hash != 0:
		if off, ok := f.offset(hash, 8); ok {
			n = uint64(u32(f.data[off+4:]))
		}
	case gnu != 0:
		n = f.gnuSymbols(gnu)
	}
	entries, ok1 := f.offset(symtab, n*elf.SymbolSize)
	names, ok2 := f.offset(strtab, strsz)
	if !ok1 || !ok2 {
		return nil, 0, fmt.Errorf("dynamic symbols at address 0x%x: %d symbols and %d bytes of names do not lie in the file", symtab, n, strsz)
	}
	return &symbolTable{f.bytes(entries, n*elf.SymbolSize), f.bytes(names, strsz)}, entries, nil
}

// gnuSymbols returns the number of symbols in a GNU hash table. It follows the
// chain of the last bucket to its end.
func (f *file) gnuSymbols(addr uint64) uint64 {
	off, ok := f.offset(addr, 16)
	if !ok {
		return 0
	}
	buckets, first, bloom := uint64(u32(f.data[off:])), uint64(u32(f.data[off+4:])), uint64(u32(f.data[off+8:]))
	table := off + 16 + 8*bloom
	if !f.has(table, 4*buckets) {
		return 0
	}
	last := uint64(0)
	for i := range buckets {
		last = max(last, uint64(u32(f.data[table+4*i:])))
	}
	if last < first {
		return first
	}
	chains := table + 4*buckets
	for {
		at := chains + 4*(last-first)
		if !f.has(at, 4) {
			return 0
		}
		last++
		if u32(f.data[at:])&1 != 0 {
			return last
		}
	}
}

// offset returns the file offset of n bytes at an address.
func (f *file) offset(addr, n uint64) (uint64, bool) {
	for _, p := range f.phdrs {
		if p.typ == elf.PtLoad && addr >= p.addr && addr-p.addr <= p.filesize && n <= p.filesize-(addr-p.addr) {
			off := p.offset + (addr - p.addr)
			return off, off >= p.offset && f.has(off, n)
		}
	}
	return 0, false
}

// find returns the symbol named name+suffix, or nil if it is missing.
func (f *file) find(name []byte, suffix string) *symbol {
	if suffix != "" {
		f.buffer = append(append(f.buffer[:0], name...), suffix...)
		name = f.buffer
	}
	i, ok := f.byName[xxhash.Sum64(name)]
	if !ok || !bytes.Equal(f.ordered[i].name, name) {
		return nil
	}
	return &f.ordered[i]
}

// contents returns the first n bytes that a symbol refers to, or nil if they are
// not in the file.
func (f *file) contents(s *symbol, n uint64) []byte {
	if s.size < n {
		return nil
	}
	if f.typ != elf.EtRel {
		if off, ok := f.offset(s.value, n); ok {
			return f.bytes(off, n)
		}
		return nil
	}
	if int(s.section) >= len(f.shdrs) || s.section >= elf.ShnLoReserve {
		return nil
	}
	h := &f.shdrs[s.section]
	if h.typ == elf.ShtNobits || !f.has(h.offset, h.size) || s.value > h.size || n > h.size-s.value {
		return nil
	}
	return f.bytes(h.offset+s.value, n)
}
