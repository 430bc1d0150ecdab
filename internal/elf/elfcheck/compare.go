package elfcheck

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Change rules, which compare a file with the one it was made of.
const (
	Same  Rule = "same"  // what is not device code is as it was
	Moved Rule = "moved" // addresses are as they were
)

// Compare returns where the file after, made of the file before, differs in more than
// the content of the sections named device, pointers into them, symbols, and sections
// that made room for program headers.
func Compare(before, after []byte, device ...string) []Finding {
	a, err := read(before)
	if err != nil {
		return []Finding{{Header, err.Error()}}
	}
	b, err := read(after)
	if err != nil {
		return []Finding{{Header, err.Error()}}
	}
	c := comparison{a: a, b: b, device: device}
	c.headers()
	c.contents()
	return b.findings
}

type comparison struct {
	a, b   *image
	device []string
}

func (c *comparison) headers() {
	if !bytes.Equal(c.a.data[:32], c.b.data[:32]) || binary.LittleEndian.Uint32(c.a.data[48:]) != binary.LittleEndian.Uint32(c.b.data[48:]) {
		c.b.note(Same, "the ELF header differs: type, machine, entry or flags")
	}
	if len(c.a.shdrs) != len(c.b.shdrs) {
		c.b.note(Same, "%d sections, %d before", len(c.b.shdrs), len(c.a.shdrs))
		return
	}
	// Special segments stay, in order.
	special := func(m *image) (types []uint32) {
		for _, p := range m.phdrs {
			if p.typ != loadType && p.typ != 0 {
				types = append(types, p.typ)
			}
		}
		return types
	}
	if !slices.Equal(special(c.a), special(c.b)) {
		c.b.note(Same, "the types of segments differ")
	}
}

// deviceRange reports whether a value leads into device code, its end included.
func (c *comparison) deviceRange(value uint64) bool {
	for _, s := range c.a.shdrs {
		if slices.Contains(c.device, s.name) && value >= s.addr && value <= s.addr+s.size {
			return true
		}
	}
	return false
}

// movedSection reports whether a section can make room for program headers.
func movedSection(s shdr) bool {
	switch s.typ {
	case 3, 4, 5, 7, 11, 19, 0x6ffffff6, 0x6ffffffd, 0x6ffffffe, 0x6fffffff:
		return s.flags&1 == 0
	}
	return s.name == ".interp"
}

func (c *comparison) contents() {
	for i := range min(len(c.a.shdrs), len(c.b.shdrs)) {
		s, t := c.a.shdrs[i], c.b.shdrs[i]
		if s.name != t.name || s.typ != t.typ || s.flags != t.flags || s.link != t.link || s.info != t.info || s.entry != t.entry {
			c.b.note(Same, "section %d is %s of type 0x%x, %s of type 0x%x before, or its flags differ", i, t.name, t.typ, s.name, s.typ)
			continue
		}
		if slices.Contains(c.device, s.name) {
			continue
		}
		if s.addr != t.addr && !movedSection(s) {
			c.b.note(Moved, "section %s is at address 0x%x, 0x%x before", s.name, t.addr, s.addr)
		}
		if s.size != t.size {
			c.b.note(Same, "section %s has 0x%x bytes, 0x%x before", s.name, t.size, s.size)
			continue
		}
		if s.typ == nobits || s.typ == 0 || s.size == 0 || !c.a.inFile(s.off, s.size) || !c.b.inFile(t.off, t.size) {
			continue
		}
		if s.flags&allocFlag != 0 && c.a.protection(s.addr) != c.b.protection(t.addr) {
			c.b.note(Same, "section %s has other permissions in memory", s.name)
		}
		c.content(s, c.a.data[s.off:s.off+s.size], c.b.data[t.off:t.off+t.size])
	}
}

func (m *image) protection(addr uint64) uint32 {
	for _, p := range m.phdrs {
		if p.typ == loadType && addr >= p.addr && addr-p.addr < p.memsz {
			return p.flags
		}
	}
	return 0
}

// content compares the content of a section word by word.
func (c *comparison) content(s shdr, x, y []byte) {
	if bytes.Equal(x, y) {
		return
	}
	for at := 0; at < len(x); at += 8 {
		end := min(at+8, len(x))
		if bytes.Equal(x[at:end], y[at:end]) {
			continue
		}
		if end-at == 8 && c.mayDiffer(s, x, at) {
			continue
		}
		c.b.note(Same, "section %s differs at byte 0x%x", s.name, at)
		return
	}
}

// mayDiffer reports whether the word at an offset of a section holds something that
// moves with device code or with a section that makes room.
func (c *comparison) mayDiffer(s shdr, x []byte, at int) bool {
	value := binary.LittleEndian.Uint64(x[at:])
	switch s.typ {
	case 2, 11: // symbols: value and size
		return at%24 == 8 || at%24 == 16
	case 4: // relocations: addend
		return at%24 == 16
	case 6: // dynamic section: addresses
		return at%16 == 8 && c.leadsToMoved(value)
	}
	return c.deviceRange(value)
}

func (c *comparison) leadsToMoved(value uint64) bool {
	for _, s := range c.a.shdrs {
		if s.addr == value && movedSection(s) {
			return true
		}
	}
	return false
}
