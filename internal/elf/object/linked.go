package object

import (
	"fmt"
	"iter"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// ParseLinked reads the headers of a 64-bit ELF file that can be stripped: the segments, and the
// sections if there are headers of sections. Section names after one that cannot be read are empty.
func ParseLinked(data []byte) (*File, error) {
	f, err := openELF(data, identifyELF(data), nil)
	if err != nil {
		return nil, err
	}
	_ = f.elfSectionNames() // names are not required
	return f, f.ReadSegments()
}

// ReadSegments reads the program headers of an ELF file.
func (f *File) ReadSegments() error {
	h := f.elf
	if h.phoff == 0 || h.phnum == 0 {
		return nil
	}
	table, ok := f.Range(h.phoff, uint64(h.phnum)*h.phdrSize())
	if uint64(h.phentsize) != h.phdrSize() || !ok {
		return fmt.Errorf("program headers at byte 0x%x: found %d of %d bytes in a file of %d bytes, expected headers of %d bytes inside the file",
			h.phoff, h.phnum, h.phentsize, len(f.data), h.phdrSize())
	}
	f.Segments = make([]elf.Segment, h.phnum)
	for i := range f.Segments {
		f.Segments[i] = h.segment(table[uint64(i)*h.phdrSize():])
	}
	return nil
}

// segment decodes a program header.
func (h *elfHeader) segment(b []byte) elf.Segment {
	s := elf.Segment{Type: h.order.Uint32(b)}
	if h.is64 {
		s.Flags = h.order.Uint32(b[4:])
		b = b[8:]
	} else {
		s.Flags = h.order.Uint32(b[24:])
		b = b[4:]
	}
	w := h.addrSize()
	s.Offset, s.Addr, s.PAddr = h.addr(b), h.addr(b[w:]), h.addr(b[2*w:])
	s.FileSize, s.MemSize = h.addr(b[3*w:]), h.addr(b[4*w:])
	if s.Align = h.addr(b[5*w:]); !h.is64 {
		s.Align = h.addr(b[6*w:])
	}
	return s
}

// Range returns n bytes of the file at off, or false if the file ends before.
func (f *File) Range(off, n uint64) ([]byte, bool) {
	if off > uint64(len(f.data)) || n > uint64(len(f.data))-off {
		return nil, false
	}
	return f.data[off : off+n : off+n], true
}

// Loaded returns the n bytes that a segment loads to an address, and their offset in the file, or
// false if no segment does.
func (f *File) Loaded(addr, n uint64) (data []byte, off uint64, ok bool) {
	for i := range f.Segments {
		s := &f.Segments[i]
		if s.Type != elf.PtLoad || addr < s.Addr || addr-s.Addr > s.FileSize || n > s.FileSize-(addr-s.Addr) {
			continue
		}
		off = s.Offset + (addr - s.Addr)
		if off >= s.Offset {
			data, ok = f.Range(off, n)
		}
		return data, off, ok
	}
	return nil, 0, false
}

// Contents returns the first n bytes that a symbol of an ELF file refers to, or nil if it is smaller
// or they are not in the file.
func (f *File) Contents(s *Symbol, n uint64) []byte {
	if s.Size < n {
		return nil
	}
	if f.Format != ELFRelocatable {
		data, _, _ := f.Loaded(s.Value, n)
		return data
	}
	data, err := f.Data(s.Section)
	if err != nil || s.Value > uint64(len(data)) || n > uint64(len(data))-s.Value {
		return nil
	}
	return data[s.Value : s.Value+n]
}

// DynamicSymbols iterates over the symbols that stripping keeps: those of .dynsym, or, without headers
// of sections, of the dynamic segment. Of a file without either, such as an object, they are those of
// .symtab. An error ends the sequence.
func (f *File) DynamicSymbols() iter.Seq2[Symbol, error] { return f.dynamicSymbols }

func (f *File) dynamicSymbols(yield func(Symbol, error) bool) {
	t, err := f.elfSymtab(elf.ShtDynsym)
	if err == nil && t.entries == nil {
		t, err = f.dynamicTable()
	}
	if err == nil && t.entries == nil {
		t, err = f.elfSymtab(elf.ShtSymtab)
	}
	if err != nil {
		yield(Symbol{}, err)
		return
	}
	// Names may share bytes, but the total is limited so that a small file cannot
	// produce long lists.
	var room uint64 = 1 << 20
	if t.names != nil {
		room += 16 * uint64(len(t.names.data))
	}
	for i := range t.count(f.elf) {
		var s Symbol
		err := f.programSymbol(&t, i, &s)
		if n := uint64(len(s.Name)); n > room {
			err = fmt.Errorf("symbol %d at byte 0x%x: the names of the symbols overlap", i, t.offset+uint64(i)*f.elf.symSize())
		} else {
			room -= n
		}
		if !yield(s, err) || err != nil {
			return
		}
	}
}

// dynamicTable opens the symbol table of the dynamic segment.
func (f *File) dynamicTable() (t symtab, err error) {
	var tags map[uint64]uint64
	for i := range f.Segments {
		if s := &f.Segments[i]; s.Type == elf.PtDynamic {
			dynamic, ok := f.Range(s.Offset, s.FileSize)
			if !ok {
				return t, fmt.Errorf("dynamic segment at byte 0x%x: %d bytes pass the end of the file (%d bytes)", s.Offset, s.FileSize, len(f.data))
			}
			tags = f.elf.tags(dynamic)
		}
	}
	if tags[elf.DtSymtab] == 0 || tags[elf.DtStrtab] == 0 {
		return t, nil
	}
	var n uint64
	if hash := tags[elf.DtHash]; hash != 0 {
		if head, _, ok := f.Loaded(hash, 8); ok {
			n = uint64(f.elf.order.Uint32(head[4:]))
		}
	} else if gnu := tags[elf.DtGNUHash]; gnu != 0 {
		n = f.gnuSymbols(gnu)
	}
	entries, at, ok1 := f.Loaded(tags[elf.DtSymtab], n*elf.SymbolSize)
	names, _, ok2 := f.Loaded(tags[elf.DtStrtab], tags[elf.DtStrsz])
	if !ok1 || !ok2 {
		return t, fmt.Errorf("dynamic symbols at address 0x%x: %d symbols and %d bytes of names do not lie in the file", tags[elf.DtSymtab], n, tags[elf.DtStrsz])
	}
	return symtab{offset: at, entries: entries, names: newStringTable(names)}, nil
}

// tags returns the entries that find symbols in a dynamic segment.
func (h *elfHeader) tags(dynamic []byte) map[uint64]uint64 {
	tags := make(map[uint64]uint64)
	for ; len(dynamic) >= elf.DynamicSize; dynamic = dynamic[elf.DynamicSize:] {
		switch tag := h.order.Uint64(dynamic); tag {
		case elf.DtNull:
			return tags
		case elf.DtSymtab, elf.DtStrtab, elf.DtStrsz, elf.DtHash, elf.DtGNUHash:
			tags[tag] = h.order.Uint64(dynamic[8:])
		}
	}
	return tags
}

// gnuSymbols returns the number of symbols in a GNU hash table. It follows the
// chain of the last bucket to its end.
func (f *File) gnuSymbols(addr uint64) uint64 {
	order := f.elf.order
	head, off, ok := f.Loaded(addr, 16)
	if !ok {
		return 0
	}
	buckets, first, bloom := uint64(order.Uint32(head)), uint64(order.Uint32(head[4:])), uint64(order.Uint32(head[8:]))
	at := off + 16 + 8*bloom
	table, ok := f.Range(at, 4*buckets)
	if !ok {
		return 0
	}
	last := uint64(0)
	for i := range buckets {
		last = max(last, uint64(order.Uint32(table[4*i:])))
	}
	if last < first {
		return first
	}
	for at += 4 * buckets; ; {
		link, ok := f.Range(at+4*(last-first), 4)
		if !ok {
			return 0
		}
		last++
		if order.Uint32(link)&1 != 0 {
			return last
		}
	}
}
