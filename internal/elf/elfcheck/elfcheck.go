// Package elfcheck checks the structure of linked ELF files: what loaders, strip and
// debuggers rely on. It shares no code with the packages that write such files.
package elfcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// Rule is a rule that a file breaks.
type Rule string

// The rules.
const (
	Header    Rule = "header"    // the headers can be read
	Order     Rule = "order"     // segments ascend
	Page      Rule = "page"      // no page belongs to two segments
	Congruent Rule = "congruent" // offsets fit addresses
	Bounds    Rule = "bounds"    // everything is inside the file
	Inside    Rule = "inside"    // sections and special segments are loaded from their place
	Dynamic   Rule = "dynamic"   // dynamic tags lead to sections
	Overlap   Rule = "overlap"   // nothing shares bytes in the file
	Table     Rule = "table"     // the program headers are loaded with the first segment
)

// Finding is a place where a file breaks a rule.
type Finding struct {
	Rule Rule
	Text string
}

// Error returns the rule and the place.
func (f Finding) Error() string { return fmt.Sprintf("%s: %s", f.Rule, f.Text) }

// Join returns one error for the findings, nil without findings.
func Join(findings []Finding) error {
	if len(findings) == 0 {
		return nil
	}
	err := fmt.Errorf("the structure of the ELF file is wrong: %w", findings[0])
	if len(findings) > 1 {
		err = fmt.Errorf("%w, and %d more", err, len(findings)-1)
	}
	return err
}

type phdr struct {
	n                                      int
	typ, flags                             uint32
	off, addr, paddr, filesz, memsz, align uint64
}

type shdr struct {
	n                int
	name             string
	typ              uint32
	flags, addr, off uint64
	size             uint64
	link, info       uint32
	align, entry     uint64
}

type image struct {
	data     []byte
	typ      uint16
	phoff    uint64
	shoff    uint64
	phdrs    []phdr
	shdrs    []shdr
	findings []Finding
}

func (m *image) note(rule Rule, format string, args ...any) {
	const most = 100
	if len(m.findings) < most {
		m.findings = append(m.findings, Finding{rule, fmt.Sprintf(format, args...)})
	}
}

func (m *image) inFile(off, n uint64) bool {
	size := uint64(len(m.data))
	return off <= size && n <= size-off
}

// read reads the headers of a file.
func read(data []byte) (*image, error) {
	if len(data) < 64 || string(data[:4]) != "\x7fELF" || data[4] != 2 || data[5] != 1 {
		return nil, errors.New("not a 64-bit little-endian ELF file")
	}
	m := &image{data: data, typ: binary.LittleEndian.Uint16(data[16:]), phoff: binary.LittleEndian.Uint64(data[32:]), shoff: binary.LittleEndian.Uint64(data[40:])}
	phnum, shnum := uint64(binary.LittleEndian.Uint16(data[56:])), uint64(binary.LittleEndian.Uint16(data[60:]))
	if phnum > 0 && (binary.LittleEndian.Uint16(data[54:]) != 56 || !m.inFile(m.phoff, phnum*56)) {
		return nil, errors.New("the program headers are not in the file")
	}
	for i := range int(phnum) {
		b := data[m.phoff+uint64(i)*56:]
		m.phdrs = append(m.phdrs, phdr{
			i, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]),
			binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:]),
		})
	}
	if m.shoff == 0 {
		return m, nil
	}
	if binary.LittleEndian.Uint16(data[58:]) != 64 || !m.inFile(m.shoff, 64) {
		return nil, errors.New("the section headers are not in the file")
	}
	names := uint64(binary.LittleEndian.Uint16(data[62:]))
	if shnum == 0 {
		shnum = binary.LittleEndian.Uint64(data[m.shoff+32:])
	}
	if names == 0xffff {
		names = uint64(binary.LittleEndian.Uint32(data[m.shoff+40:]))
	}
	if shnum > uint64(len(data))/64 || !m.inFile(m.shoff, shnum*64) || names >= shnum {
		return nil, errors.New("the section headers are not in the file")
	}
	for i := range int(shnum) {
		b := data[m.shoff+uint64(i)*64:]
		m.shdrs = append(m.shdrs, shdr{
			n: i, typ: binary.LittleEndian.Uint32(b[4:]), flags: binary.LittleEndian.Uint64(b[8:]), addr: binary.LittleEndian.Uint64(b[16:]), off: binary.LittleEndian.Uint64(b[24:]),
			size: binary.LittleEndian.Uint64(b[32:]), link: binary.LittleEndian.Uint32(b[40:]), info: binary.LittleEndian.Uint32(b[44:]), align: binary.LittleEndian.Uint64(b[48:]), entry: binary.LittleEndian.Uint64(b[56:]),
		})
	}
	strings := m.shdrs[names]
	if !m.inFile(strings.off, strings.size) {
		return nil, errors.New("the section names are not in the file")
	}
	table := data[strings.off : strings.off+strings.size]
	for i := range m.shdrs {
		at := uint64(binary.LittleEndian.Uint32(data[m.shoff+uint64(i)*64:]))
		if at >= uint64(len(table)) {
			return nil, fmt.Errorf("the name of section %d is outside of the section names", i)
		}
		end := at
		for end < uint64(len(table)) && end-at < 1000 && table[end] != 0 {
			end++
		}
		m.shdrs[i].name = string(table[at:end])
	}
	return m, nil
}

const (
	loadType    = 1
	dynamicType = 2
	interpType  = 3
	noteType    = 4
	tableType   = 6
	tlsType     = 7
	ehFrameType = 0x6474e550
	relroType   = 0x6474e552
	propType    = 0x6474e553

	nobits    = 8
	allocFlag = 2
	tlsFlag   = 0x400
)

// Check returns the rules that a linked file breaks, at most 100.
func Check(data []byte) []Finding {
	m, err := read(data)
	if err != nil {
		return []Finding{{Header, err.Error()}}
	}
	m.loads()
	m.special()
	m.table()
	m.sections()
	m.dynamic()
	m.overlaps()
	return m.findings
}

func (m *image) loads() {
	var last *phdr
	for i := range m.phdrs {
		p := &m.phdrs[i]
		if p.filesz > 0 && !m.inFile(p.off, p.filesz) {
			m.note(Bounds, "segment %d: 0x%x bytes at byte 0x%x pass the end of the file", p.n, p.filesz, p.off)
		}
		if p.typ != loadType {
			continue
		}
		if p.align > 1 && (p.align&(p.align-1) != 0 || p.off%p.align != p.addr%p.align) {
			m.note(Congruent, "segment %d: byte 0x%x and address 0x%x differ modulo 0x%x", p.n, p.off, p.addr, p.align)
		}
		if p.filesz > p.memsz {
			m.note(Bounds, "segment %d: 0x%x bytes of the file in 0x%x bytes of memory", p.n, p.filesz, p.memsz)
		}
		if last != nil {
			if p.addr < last.addr+last.memsz {
				m.note(Order, "segment %d at address 0x%x begins before segment %d ends", p.n, p.addr, last.n)
			} else if page := max(p.align, last.align, 1); last.memsz > 0 && (last.addr+last.memsz-1)/page == p.addr/page && p.memsz > 0 {
				m.note(Page, "segments %d and %d share the page at address 0x%x", last.n, p.n, p.addr/page*page)
			}
			if p.filesz > 0 && last.filesz > 0 && p.off < last.off+last.filesz {
				m.note(Overlap, "segments %d and %d overlap at byte 0x%x", last.n, p.n, p.off)
			}
		}
		last = p
	}
	if last == nil {
		m.note(Header, "no loaded segment")
	}
}

// loaded returns the segment that loads n bytes from a place of the file to an address.
func (m *image) loaded(addr, off, n uint64) bool {
	for _, p := range m.phdrs {
		if p.typ == loadType && addr >= p.addr && addr-p.addr <= p.filesz && n <= p.filesz-(addr-p.addr) && off-p.off == addr-p.addr {
			return true
		}
	}
	return false
}

// inMemory reports whether n bytes at an address are in one segment.
func (m *image) inMemory(addr, n uint64) bool {
	for _, p := range m.phdrs {
		if p.typ == loadType && addr >= p.addr && addr-p.addr <= p.memsz && n <= p.memsz-(addr-p.addr) {
			return true
		}
	}
	return false
}

func (m *image) special() {
	for _, p := range m.phdrs {
		switch p.typ {
		case dynamicType, interpType, noteType, tableType, ehFrameType, propType, tlsType:
			if p.filesz > 0 && !m.loaded(p.addr, p.off, p.filesz) {
				m.note(Inside, "segment %d of type 0x%x: byte 0x%x is not loaded to address 0x%x", p.n, p.typ, p.off, p.addr)
			}
		case relroType:
			if p.memsz > 0 && !m.inMemory(p.addr, 1) {
				m.note(Inside, "segment %d: the address 0x%x is in no segment", p.n, p.addr)
			}
			if p.filesz > 0 && !m.loaded(p.addr, p.off, 1) {
				m.note(Inside, "segment %d: byte 0x%x is not loaded to address 0x%x", p.n, p.off, p.addr)
			}
		}
	}
}

// table checks that kernels before 5.18 find the program headers: at the first address
// plus their offset.
func (m *image) table() {
	var first *phdr
	for i := range m.phdrs {
		p := &m.phdrs[i]
		if p.typ != loadType {
			continue
		}
		if first == nil {
			first = p
		}
		size := uint64(len(m.phdrs)) * 56
		if m.phoff >= p.off && m.phoff-p.off <= p.filesz && size <= p.filesz-(m.phoff-p.off) && p.addr-p.off == first.addr-first.off {
			for _, t := range m.phdrs {
				if t.typ == tableType && (t.off != m.phoff || t.filesz != size) {
					m.note(Table, "segment %d describes 0x%x bytes at byte 0x%x, the program headers are 0x%x bytes at byte 0x%x", t.n, t.filesz, t.off, size, m.phoff)
				}
			}
			return
		}
	}
	m.note(Table, "the program headers at byte 0x%x are not loaded with the first segment", m.phoff)
}

func (m *image) sections() {
	for _, s := range m.shdrs {
		if s.typ == 0 {
			continue
		}
		if s.typ != nobits && s.size > 0 && !m.inFile(s.off, s.size) {
			m.note(Bounds, "section %s: 0x%x bytes at byte 0x%x pass the end of the file", s.name, s.size, s.off)
		}
		if int(s.link) >= len(m.shdrs) {
			m.note(Header, "section %s: linked section %d does not exist", s.name, s.link)
		}
		if s.flags&allocFlag == 0 || s.size == 0 {
			continue
		}
		if s.align > 1 && s.addr%s.align != 0 {
			m.note(Congruent, "section %s: the address 0x%x is not a multiple of 0x%x", s.name, s.addr, s.align)
		}
		switch {
		case s.typ == nobits && s.flags&tlsFlag != 0:
		case s.typ == nobits:
			if !m.inMemory(s.addr, s.size) {
				m.note(Inside, "section %s: 0x%x bytes at address 0x%x are in no segment", s.name, s.size, s.addr)
			}
		case !m.loaded(s.addr, s.off, s.size):
			m.note(Inside, "section %s: byte 0x%x is not loaded to address 0x%x", s.name, s.off, s.addr)
		}
	}
}

func (m *image) dynamic() {
	// The types of the sections that dynamic tags lead to.
	tagged := map[uint64]uint32{
		4: 5, 5: 3, 6: 11, 7: 4, 36: 19, 0x6ffffef5: 0x6ffffff6,
		0x6ffffff0: 0x6fffffff, 0x6ffffffc: 0x6ffffffd, 0x6ffffffe: 0x6ffffffe,
	}
	for _, p := range m.phdrs {
		if p.typ != dynamicType || !m.inFile(p.off, p.filesz) {
			continue
		}
		for at := p.off; at+16 <= p.off+p.filesz; at += 16 {
			tag, value := binary.LittleEndian.Uint64(m.data[at:]), binary.LittleEndian.Uint64(m.data[at+8:])
			if tag == 0 {
				break
			}
			typ, ok := tagged[tag]
			if !ok {
				continue
			}
			found, any := false, false
			for _, s := range m.shdrs {
				if s.typ == typ && s.flags&allocFlag != 0 {
					any = true
					found = found || s.addr == value
				}
			}
			if any && !found && value != 0 {
				m.note(Dynamic, "dynamic tag 0x%x points to address 0x%x, where no section of type 0x%x begins", tag, value, typ)
			}
		}
	}
}

func (m *image) overlaps() {
	type span struct {
		name   string
		lo, hi uint64
	}
	spans := []span{{"the ELF header", 0, 64}, {"the program headers", m.phoff, m.phoff + uint64(len(m.phdrs))*56}}
	if len(m.shdrs) > 0 {
		spans = append(spans, span{"the section headers", m.shoff, m.shoff + uint64(len(m.shdrs))*64})
	}
	for _, s := range m.shdrs {
		if s.typ != 0 && s.typ != nobits && s.size > 0 && m.inFile(s.off, s.size) {
			spans = append(spans, span{"section " + s.name, s.off, s.off + s.size})
		}
	}
	sort.SliceStable(spans, func(i, j int) bool { return spans[i].lo < spans[j].lo })
	for i := 1; i < len(spans); i++ {
		if spans[i].lo < spans[i-1].hi {
			m.note(Overlap, "%s and %s overlap at byte 0x%x", spans[i-1].name, spans[i].name, spans[i].lo)
			spans[i].hi = max(spans[i].hi, spans[i-1].hi)
		}
	}
}
