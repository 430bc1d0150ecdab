package object

import "github.com/rules-offload/rules_offload/internal/elf"

// elfEncoder appends ELF structures to a buffer.
type elfEncoder struct {
	h   *elfHeader
	buf []byte
}

func (e *elfEncoder) u16(v uint16) { e.buf = e.h.order.AppendUint16(e.buf, v) }
func (e *elfEncoder) u32(v uint32) { e.buf = e.h.order.AppendUint32(e.buf, v) }

// addr appends an address-sized number.
func (e *elfEncoder) addr(v uint64) {
	if !e.h.is64 {
		e.u32(uint32(v))
		return
	}
	e.buf = e.h.order.AppendUint64(e.buf, v)
}

// header appends the file header for a file with section headers at shoff.
// sections is their number, and names the section with their names.
func (e *elfEncoder) header(phoff, shoff uint64, phnum uint16, sections int, names uint32) {
	h := e.h
	class, data := byte(pick(h.is64, 2, 1)), byte(1)
	if h.order.Uint16([]byte{0, 1}) == 1 {
		data = 2
	}
	e.buf = append(e.buf, elf.Magic...)
	e.buf = append(e.buf, class, data, 1, h.osabi, h.abiVersion, 0, 0, 0, 0, 0, 0, 0)
	e.u16(h.typ)
	e.u16(h.machine)
	e.u32(h.version)
	e.addr(h.entry)
	e.addr(phoff)
	e.addr(shoff)
	e.u32(h.flags)
	e.u16(uint16(h.ehdrSize()))
	if phnum > 0 {
		e.u16(uint16(h.phdrSize()))
	} else {
		e.u16(0)
	}
	e.u16(phnum)
	e.u16(uint16(h.shdrSize()))
	if sections >= elf.ShnLoReserve {
		e.u16(0)
	} else {
		e.u16(uint16(sections))
	}
	e.u16(escape(names))
}

// escape returns a section index in the form of a 16-bit field.
func escape(index uint32) uint16 {
	if index >= elf.ShnLoReserve {
		return elf.ShnXindex
	}
	return uint16(index)
}

// nullSection appends section header 0, which holds values that do not fit in
// the file header.
func (e *elfEncoder) nullSection(sections int, names uint32) {
	var s elf.SectionHeader
	if sections >= elf.ShnLoReserve {
		s.Size = uint64(sections)
	}
	if names >= elf.ShnLoReserve {
		s.Link = names
	}
	e.section(&s, 0)
}

// section appends a section header.
func (e *elfEncoder) section(s *elf.SectionHeader, name uint32) {
	e.u32(name)
	e.u32(s.Type)
	e.addr(s.Flags)
	e.addr(s.Addr)
	e.addr(s.Offset)
	e.addr(s.Size)
	e.u32(s.Link)
	e.u32(s.Info)
	e.addr(s.Align)
	e.addr(s.EntSize)
}

// segment appends a program header.
func (e *elfEncoder) segment(s *elf.Segment) {
	e.u32(s.Type)
	if e.h.is64 {
		e.u32(s.Flags)
	}
	for _, v := range [...]uint64{s.Offset, s.Addr, s.PAddr, s.FileSize, s.MemSize} {
		e.addr(v)
	}
	if !e.h.is64 {
		e.u32(s.Flags)
	}
	e.addr(s.Align)
}

// symbol appends a symbol. shndx is the section field to write.
func (e *elfEncoder) symbol(name uint32, s *elfSymbol, shndx uint16) {
	e.u32(name)
	if e.h.is64 {
		e.buf = append(e.buf, s.info, s.other)
		e.u16(shndx)
		e.addr(s.value)
		e.addr(s.size)
		return
	}
	e.addr(s.value)
	e.addr(s.size)
	e.buf = append(e.buf, s.info, s.other)
	e.u16(shndx)
}

func (r *elfRewriter) encodeHeader() []byte {
	e := elfEncoder{h: r.h}
	phoff := r.phdrs.Offset
	if len(r.segments) == 0 {
		phoff = 0
	}
	e.header(phoff, r.shoff, uint16(len(r.segments)), len(r.sections)+1, r.names.index)
	return e.buf
}

func (r *elfRewriter) encodeSegments() []byte {
	e := elfEncoder{h: r.h}
	for _, s := range r.segments {
		e.segment(&s.Segment)
	}
	return e.buf
}

func (r *elfRewriter) encodeSections() []byte {
	e := elfEncoder{h: r.h, buf: make([]byte, 0, r.h.shdrSize()*uint64(len(r.sections)+1))}
	e.nullSection(len(r.sections)+1, r.names.index)
	for _, s := range r.sections {
		switch s.role {
		case rolePlain:
			s.Link = s.linked.number()
			if s.linked == r.symtab && r.renumbered {
				s.Link = 0 // its contents may refer to symbols by number
			}
		case roleSymtab:
			s.Link, s.Info = s.linked.number(), r.locals()
		case roleShndx:
			s.Link = s.linked.number()
		case roleReloc, roleDynReloc:
			if s.Link = s.linked.number(); s.applies != nil {
				s.Info = s.applies.index
			}
		case roleGroup:
			s.Link, s.Info = s.linked.number(), 0
			if s.linked != nil {
				s.Info = r.symbols[s.signature].index
			}
		}
		e.section(&s.SectionHeader, r.names.strings.Offset(s.nameRef))
	}
	return e.buf
}

// number returns the section number of s, or 0 for nil.
func (s *outSection) number() uint32 {
	if s == nil {
		return 0
	}
	return s.index
}

// locals returns the index of the first non-local symbol.
func (r *elfRewriter) locals() uint32 {
	var n uint32
	for _, s := range r.order {
		if s.binding() == elf.BindLocal {
			n = max(n, s.index)
		}
	}
	return n + 1
}

func (r *elfRewriter) encodeSymbols() []byte {
	e := elfEncoder{h: r.h, buf: make([]byte, 0, r.symtab.Size)}
	for _, s := range r.order {
		shndx := s.shndx
		if s.in != nil {
			shndx = escape(s.in.index)
		} else if !s.reserved() {
			shndx = 0
		}
		e.symbol(r.symtab.linked.strings.Offset(s.nameRef), &s.elfSymbol, shndx)
	}
	return e.buf
}

func (r *elfRewriter) encodeIndices() []byte {
	e := elfEncoder{h: r.h, buf: make([]byte, 0, r.shndx.Size)}
	for _, s := range r.order {
		if s.in != nil && s.in.index >= elf.ShnLoReserve {
			e.u32(s.in.index)
		} else {
			e.u32(0)
		}
	}
	return e.buf
}

func (r *elfRewriter) encodeGroup(s *outSection) []byte {
	e := elfEncoder{h: r.h}
	flag := s.groupFlag
	if s.linked != nil && r.symbols[s.signature].binding() == elf.BindLocal {
		flag &^= elf.GrpComdat // a local name is not merged with that of another file
	}
	e.u32(flag)
	for _, m := range s.members {
		e.u32(m.index)
	}
	return e.buf
}
