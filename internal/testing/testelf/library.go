package testelf

import (
	"bytes"
	"debug/elf"
)

// Library describes a linked file. Its sections have the order and the segments that
// GNU ld gives them.
type Library struct {
	Machine elf.Machine // EM_X86_64 or EM_AARCH64; 0 means EM_X86_64
	Exec    bool        // a program at fixed addresses, without relocations
	Relr    bool        // packed relocations
	Page    uint64      // of segments; 0 means 4096
	Bundles [][]byte
	// Wrappers has the bundle of each wrapper.
	Wrappers []int
	// Symbol is whether wrappers lead to their bundles through dynamic symbols.
	Symbol bool
	// Section replaces the name .hip_fatbin.
	Section string
	// CUDA is whether Bundles are CUDA fatbinaries, with the sections and wrappers of CUDA.
	CUDA bool
	// Kernels are the names of kernels that the file registers with HIP by offload entries.
	Kernels []string
	// Pointer, if not nil, is an offset in the device code that a relocated pointer in
	// .data leads to.
	Pointer *uint64
	// Tight leaves no room for program headers in the first segment.
	Tight bool
	// Appended follows the file.
	Appended []byte
}

type section struct {
	name               string
	typ                uint32
	flags, addr, align uint64
	link, info         uint32
	entry              uint64
	data               []byte
	off                uint64
}

// Sections have these numbers.
const (
	note = iota + 1
	dynsym
	dynstr
	rela
	text
	rodata
	fatbin
	ehframe
	dynamic
	wrappers
	data
	symtab
	strtab
	shstrtab
	count
)

const librarySegments = 7

// The sizes of an offload entry, and of the read-only data before the names of kernels, in bytes.
const offloadEntry, readOnly = 56, 16

// segments are the first and last sections of loaded segments, with their flags.
var segments = []struct{ first, last, flags int }{{0, rela, 4}, {text, text, 5}, {rodata, ehframe, 4}, {dynamic, data, 6}}

// Build returns the file.
func (l Library) Build() []byte {
	if l.Page == 0 {
		l.Page = 4096
	}
	if l.Machine == 0 {
		l.Machine = elf.EM_X86_64
	}
	if l.Section == "" {
		l.Section = map[bool]string{false: ".hip_fatbin", true: ".nv_fatbin"}[l.CUDA]
	}
	s := l.sections()
	l.place(s)
	l.fill(s)
	names := name(s)
	l.place(s)
	end := s[shstrtab].off + uint64(len(s[shstrtab].data))
	table := (end + 7) / 8 * 8

	var b bytes.Buffer
	typ := elf.ET_DYN
	if l.Exec {
		typ = elf.ET_EXEC
	}
	write(&b, header(typ, l.Machine, librarySegments, table, count))
	l.writeSegments(&b, s)
	for i := 1; i < count; i++ {
		b.Write(make([]byte, s[i].off-uint64(b.Len())))
		b.Write(s[i].data)
	}
	b.Write(make([]byte, table-end))
	for i, n := range names {
		write(&b, elf.Section64{Name: n, Type: s[i].typ, Flags: s[i].flags, Addr: s[i].addr, Off: s[i].off, Size: uint64(len(s[i].data)),
			Link: s[i].link, Info: s[i].info, Addralign: s[i].align, Entsize: s[i].entry})
	}
	return append(b.Bytes(), l.Appended...)
}

// base returns the address of the first byte of the file.
func (l *Library) base() uint64 {
	if l.Exec {
		return 0x400000
	}
	return 0
}

// place sets the offsets and addresses of sections.
func (l *Library) place(s []section) {
	const headers = headerSize + librarySegments*segmentSize
	off, addr := uint64(headers), l.base()+headers
	for i := 1; i < count; i++ {
		for _, seg := range segments[1:] {
			if seg.first == i {
				addr = (addr+l.Page-1)/l.Page*l.Page + off%l.Page + l.Page
			}
		}
		align := s[i].align
		pad := (align - off%align) % align
		off, addr = off+pad, addr+pad
		s[i].off = off
		if s[i].flags&uint64(elf.SHF_ALLOC) != 0 {
			s[i].addr = addr
		}
		off, addr = off+uint64(len(s[i].data)), addr+uint64(len(s[i].data))
	}
}

// name fills the section of section names, and returns the offsets in it.
func name(s []section) []uint32 {
	text, at := []byte{0}, make([]uint32, count)
	for i := 1; i < count; i++ {
		at[i] = uint32(len(text))
		text = append(append(text, s[i].name...), 0)
	}
	s[shstrtab].data = text
	return at
}

// writeSegments writes the headers of segments.
func (l *Library) writeSegments(b *bytes.Buffer, s []section) {
	segment := func(typ elf.ProgType, flags uint32, off, addr, size, align uint64) {
		write(b, elf.Prog64{Type: uint32(typ), Flags: flags, Off: off, Vaddr: addr, Paddr: addr, Filesz: size, Memsz: size, Align: align})
	}
	for n, seg := range segments {
		off, addr := uint64(0), l.base()
		if n > 0 {
			off, addr = s[seg.first].off, s[seg.first].addr
		}
		segment(elf.PT_LOAD, uint32(seg.flags), off, addr, s[seg.last].off+uint64(len(s[seg.last].data))-off, l.Page)
	}
	segment(elf.PT_DYNAMIC, 6, s[dynamic].off, s[dynamic].addr, uint64(len(s[dynamic].data)), 8)
	segment(elf.PT_NOTE, 4, s[note].off, s[note].addr, uint64(len(s[note].data)), 4)
	segment(elf.PT_GNU_STACK, 6, 0, 0, 0, 16)
}

// sections returns the sections with contents of the right sizes.
func (l Library) sections() []section {
	s := make([]section, count)
	symbols := 1
	if l.Symbol {
		symbols += len(l.Bundles)
	}
	relocations := len(l.Wrappers)
	if l.Pointer != nil {
		relocations++
	}
	relocations += 2 * len(l.Kernels)
	size, typ, entry := relocations*24, uint32(4), uint64(24)
	switch {
	case l.Exec:
		size = 0
	case l.Relr:
		size, typ, entry = relocations*8, 19, 8
	}
	build := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), 8), 3), "GNU\x0012345678"...)
	s[note] = section{name: ".note.gnu.build-id", typ: 7, flags: 2, align: 4, data: build}
	s[dynsym] = section{name: ".dynsym", typ: 11, flags: 2, align: 8, link: dynstr, info: 1, entry: 24, data: make([]byte, 24*symbols)}
	s[dynstr] = section{name: ".dynstr", typ: 3, flags: 2, align: 1, data: append([]byte("\x00bundle\x00"), bytes.Repeat([]byte("symbol\x00"), 30)...)}
	if l.Tight {
		s[dynstr].data, s[note].data = []byte{0}, make([]byte, 12)
	}
	s[rela] = section{name: ".rela.dyn", typ: typ, flags: 2, align: 8, link: dynsym, entry: entry, data: make([]byte, size)}
	s[text] = section{name: ".text", typ: 1, flags: 6, align: 16, data: bytes.Repeat([]byte{0x90}, 64)}
	s[rodata] = section{name: ".rodata", typ: 1, flags: 2, align: 8, data: []byte("read-only data  ")}
	var code []byte
	for _, b := range l.Bundles {
		code = append(code, make([]byte, (4096-len(code)%4096)%4096)...)
		code = append(code, b...)
	}
	s[fatbin] = section{name: l.Section, typ: 1, flags: 2, align: 4096, data: code}
	s[ehframe] = section{name: ".eh_frame", typ: 1, flags: 2, align: 8, data: bytes.Repeat([]byte("eh_frame"), 8)}
	s[dynamic] = section{name: ".dynamic", typ: 6, flags: 3, align: 8, link: dynstr, entry: 16, data: make([]byte, 16*10)}
	s[wrappers] = section{name: map[bool]string{false: ".hipFatBinSegment", true: ".nvFatBinSegment"}[l.CUDA], typ: 1, flags: 3, align: 8, data: make([]byte, 24*len(l.Wrappers))}
	s[data] = section{name: ".data", typ: 1, flags: 3, align: 8, data: []byte("12345678data....")}
	if l.Kernels != nil {
		s[data].name, s[data].data = "llvm_offload_entries", make([]byte, offloadEntry*len(l.Kernels))
	}
	for _, name := range l.Kernels {
		s[rodata].data = append(append(s[rodata].data, name...), 0)
	}
	s[symtab] = section{name: ".symtab", typ: 2, align: 8, link: strtab, info: 1, entry: 24, data: make([]byte, 24*(1+len(l.Bundles)))}
	s[strtab] = section{name: ".strtab", typ: 3, align: 1, data: []byte("\x00bundle\x00")}
	s[shstrtab] = section{name: ".shstrtab", typ: 3, align: 1}
	return s
}

// fill writes what depends on addresses.
func (l Library) fill(s []section) {
	relative, absolute := uint64(8), uint64(1)
	if l.Machine == elf.EM_AARCH64 {
		relative, absolute = 1027, 257
	}
	var starts []uint64
	at := uint64(0)
	for _, b := range l.Bundles {
		at = (at + 4095) / 4096 * 4096
		starts = append(starts, at)
		at += uint64(len(b))
	}
	symbol := func(table []byte, i int, value, size uint64) {
		b := table[24*i:]
		le.PutUint32(b, 1)
		b[4] = 1<<4 | 1
		le.PutUint16(b[6:], fatbin)
		le.PutUint64(b[8:], value)
		le.PutUint64(b[16:], size)
	}
	for i := range l.Bundles {
		symbol(s[symtab].data, 1+i, s[fatbin].addr+starts[i], uint64(len(l.Bundles[i])))
		if l.Symbol {
			symbol(s[dynsym].data, 1+i, s[fatbin].addr+starts[i], 0)
		}
	}
	n := 0
	point := func(in *section, off, value uint64, bundle int) {
		switch {
		case l.Exec:
			le.PutUint64(in.data[off:], value)
		case l.Relr:
			le.PutUint64(in.data[off:], value)
			le.PutUint64(s[rela].data[8*n:], in.addr+off)
		default:
			b := s[rela].data[24*n:]
			le.PutUint64(b, in.addr+off)
			info, addend := relative, value
			if l.Symbol && bundle >= 0 {
				info, addend = absolute|uint64(bundle+1)<<32, 0
			}
			le.PutUint64(b[8:], info)
			le.PutUint64(b[16:], addend)
		}
		n++
	}
	for i, b := range l.Wrappers {
		le.PutUint32(s[wrappers].data[24*i:], map[bool]uint32{false: 0x48495046, true: 0x466243b1}[l.CUDA])
		le.PutUint32(s[wrappers].data[24*i+4:], 1)
		point(&s[wrappers], uint64(24*i+8), s[fatbin].addr+starts[b], b)
	}
	if l.Pointer != nil {
		point(&s[data], 0, s[fatbin].addr+*l.Pointer, -1)
	}
	text := s[rodata].addr + readOnly
	for i, name := range l.Kernels {
		const versionAt, kindAt, addrAt, nameAt, hip = 8, 10, 16, 24, 4
		e := s[data].data[offloadEntry*i:]
		le.PutUint16(e[versionAt:], 1)
		le.PutUint16(e[kindAt:], hip)
		point(&s[data], uint64(offloadEntry*i+addrAt), text, -1)
		point(&s[data], uint64(offloadEntry*i+nameAt), text, -1)
		text += uint64(len(name) + 1)
	}
	tags := [][2]uint64{{5, s[dynstr].addr}, {6, s[dynsym].addr}, {10, uint64(len(s[dynstr].data))}, {11, 24}}
	switch {
	case l.Exec:
	case l.Relr:
		tags = append(tags, [][2]uint64{{36, s[rela].addr}, {35, uint64(len(s[rela].data))}, {37, 8}}...)
	default:
		tags = append(tags, [][2]uint64{{7, s[rela].addr}, {8, uint64(len(s[rela].data))}, {9, 24}}...)
	}
	for i, t := range tags {
		le.PutUint64(s[dynamic].data[16*i:], t[0])
		le.PutUint64(s[dynamic].data[16*i+8:], t[1])
	}
}
