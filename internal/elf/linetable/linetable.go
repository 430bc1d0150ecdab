// Package linetable reads line tables of DWARF, versions 2 to 5: the source file and line of
// each range of code. For inlined code, a table has the line of the inlined function. The
// formats are those of sections 6.2 and 7.22 of the DWARF standard (https://dwarfstd.org).
//
// The package replaces debug/dwarf, which allocates tables at each start of a process.
package linetable

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Table is the contents of all line tables of a file.
type Table struct {
	// Files are the names of source files. Relative names are joined with the directory of the
	// compilation if the tables have it. The first name is empty.
	Files []string
	// Spans are the ranges of code with a line, by address. They do not overlap.
	Spans []Span
}

// Span is the source line of a range of addresses.
type Span struct {
	Start, End uint64
	File, Line uint32 // File is an index into Files; both are 0 for code without a source line
}

// Parse reads all line tables. section returns the uncompressed contents of a debug section, which
// may be empty; Parse reads .debug_line, and others if the tables refer to them. code reports
// whether code of the program is at an address: a linker sets the address of functions that it
// removed to a value outside of the program.
func Parse(section func(name string) ([]byte, error), code func(addr uint64) bool) (*Table, error) {
	p := &parser{section: section, code: code, table: &Table{Files: []string{""}}, index: map[string]uint32{"": 0}, contents: make(map[string][]byte)}
	r := &reader{data: p.read(".debug_line")}
	// Names may share bytes, but a small file cannot produce long lists.
	p.room = 64*len(r.data) + 1<<20
	for p.err == nil && len(r.data) > r.at {
		at := r.at
		if err := p.unit(r); err != nil && p.err == nil {
			return nil, fmt.Errorf("line table at byte 0x%x of .debug_line: %w", at, err)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	p.table.Spans = disjoint(p.table.Spans)
	return p.table, nil
}

// disjoint sorts spans and shortens those that begin inside another one.
func disjoint(spans []Span) []Span {
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	kept, end := spans[:0], uint64(0)
	for _, s := range spans {
		if s.Start = max(s.Start, end); s.Start < s.End {
			kept, end = append(kept, s), s.End
		}
	}
	return kept
}

// parser collects the spans of all units.
type parser struct {
	section  func(name string) ([]byte, error)
	contents map[string][]byte // of sections that were read
	err      error             // of the first section that could not be read
	code     func(addr uint64) bool
	table    *Table
	index    map[string]uint32 // of Table.Files
	room     int               // bytes of names that may still be stored
	dirs     map[uint64]string // directories of compilations by offset in .debug_line, nil before the first use
}

// read returns the contents of a section.
func (p *parser) read(name string) []byte {
	data, ok := p.contents[name]
	if !ok && p.err == nil {
		data, p.err = p.section(name)
		p.contents[name] = data
	}
	return data
}

// unit is the header of a line table.
type unit struct {
	version             uint16
	wide                bool // 64-bit DWARF
	addressSize         uint8
	minLength, maxOps   uint8
	lineBase            int8
	lineRange, baseCode uint8
	lengths             []byte // number of operands of standard opcodes
	compilation         string // directory
	dirs                [][]byte
	files               []file
}

// file is a file of a unit.
type file struct {
	name  []byte
	dir   uint64
	index int64 // in Table.Files, -1 before the first use
}

// unit reads a line table and runs its program.
func (p *parser) unit(r *reader) error {
	start := uint64(r.at)
	length, wide := r.unitLength()
	u := unit{wide: wide}
	body := &reader{data: r.take(length)}
	if r.failed {
		return fmt.Errorf("its %d bytes pass the end of the section (%d bytes)", length, len(r.data))
	}
	if u.version = body.u16(); u.version < 2 || u.version > 5 {
		return fmt.Errorf("found version %d of DWARF, expected 2 to 5", u.version)
	}
	u.addressSize = 8
	if u.version >= 5 {
		u.addressSize = body.u8()
		body.u8() // size of segment selectors
	} else {
		u.compilation = p.compilation(start)
	}
	headerLength := body.offset(u.wide)
	header := &reader{data: body.take(headerLength)}
	if body.failed {
		return errors.New("its header passes its end")
	}
	u.minLength, u.maxOps = header.u8(), 1
	if u.version >= 4 {
		u.maxOps = header.u8()
	}
	header.u8() // default of is_stmt
	u.lineBase, u.lineRange, u.baseCode = int8(header.u8()), header.u8(), header.u8()
	if u.baseCode > 0 {
		u.lengths = header.take(uint64(u.baseCode) - 1)
	}
	if u.lineRange == 0 || u.maxOps > 1 || u.addressSize != 8 && u.addressSize != 4 {
		return fmt.Errorf("found %d lines for special opcodes, %d operations in an instruction and addresses of %d bytes, expected at least 1, 1, and 4 or 8", u.lineRange, u.maxOps, u.addressSize)
	}
	if u.version >= 5 {
		p.entries(header, &u, func(name []byte, _ uint64) { u.dirs = append(u.dirs, name) })
		p.entries(header, &u, func(name []byte, dir uint64) { u.files = append(u.files, file{name, dir, -1}) })
	} else {
		u.lists(header)
	}
	if header.failed {
		return errors.New("its lists of directories and files pass the end of its header")
	}
	return p.run(body, &u)
}

// lists reads the directories and files of versions 2 to 4, whose numbers begin with 1.
func (u *unit) lists(r *reader) {
	u.dirs, u.files = [][]byte{nil}, []file{{index: 0}}
	for {
		dir := r.text()
		if len(dir) == 0 {
			break
		}
		u.dirs = append(u.dirs, dir)
	}
	for {
		name := r.text()
		if len(name) == 0 {
			break
		}
		u.files = append(u.files, file{name, r.uleb(), -1})
		r.uleb() // time
		r.uleb() // size
	}
}

// Contents and forms of the entries of version 5.
const (
	contentPath      = 1
	contentDirectory = 2

	formBlock    = 0x09
	formBlock1   = 0x0a
	formBlock2   = 0x03
	formBlock4   = 0x04
	formData1    = 0x0b
	formData2    = 0x05
	formData4    = 0x06
	formData8    = 0x07
	formData16   = 0x1e
	formUdata    = 0x0f
	formSdata    = 0x0d
	formString   = 0x08
	formStrp     = 0x0e
	formLineStrp = 0x1f
	formOffset   = 0x17
	formAddr     = 0x01
	formFlag     = 0x0c
	formPresent  = 0x19
)

// entries reads the directories or the files of version 5.
func (p *parser) entries(r *reader, u *unit, add func(name []byte, dir uint64)) {
	formats := make([][2]uint64, r.u8())
	for i := range formats {
		formats[i] = [2]uint64{r.uleb(), r.uleb()}
	}
	count := r.uleb()
	if len(formats) == 0 && count > 0 {
		r.failed = true
	}
	for ; count > 0 && !r.failed; count-- {
		var name []byte
		var dir uint64
		before := r.at
		for _, f := range formats {
			text, n := p.value(r, f[1], u.wide)
			switch f[0] {
			case contentPath:
				name = text
			case contentDirectory:
				dir = n
			}
		}
		if r.at == before { // entries without bytes could have any number
			r.failed = true
		}
		if !r.failed {
			add(name, dir)
		}
	}
}

// value reads a value: a text or a number.
func (p *parser) value(r *reader, form uint64, wide bool) ([]byte, uint64) {
	switch form {
	case formString:
		return r.text(), 0
	case formStrp:
		return textAt(p.read(".debug_str"), r.offset(wide)), 0
	case formLineStrp:
		return textAt(p.read(".debug_line_str"), r.offset(wide)), 0
	case formOffset:
		return nil, r.offset(wide)
	case formUdata:
		return nil, r.uleb()
	case formSdata:
		return nil, uint64(r.sleb())
	case formData1, formFlag:
		return nil, uint64(r.u8())
	case formData2:
		return nil, uint64(r.u16())
	case formData4:
		return nil, uint64(r.u32())
	case formData8, formAddr:
		return nil, r.u64()
	case formData16:
		r.take(16)
	case formPresent:
	case formBlock:
		r.take(r.uleb())
	case formBlock1:
		r.take(uint64(r.u8()))
	case formBlock2:
		r.take(uint64(r.u16()))
	case formBlock4:
		r.take(uint64(r.u32()))
	default:
		r.failed = true
	}
	return nil, 0
}

// Opcodes of the line program.
const (
	opCopy           = 1
	opAdvancePC      = 2
	opAdvanceLine    = 3
	opSetFile        = 4
	opConstAddPC     = 8
	opFixedAdvancePC = 9

	extEndSequence = 1
	extSetAddress  = 2
	extDefineFile  = 3
)

// sequence is the state of the line program. Its rows have increasing addresses.
type sequence struct {
	addr uint64
	file uint64
	line int64
	last Span // the row before, without its end
	rows int
}

// run runs the program of a unit.
func (p *parser) run(r *reader, u *unit) error {
	begin := sequence{file: 1, line: 1}
	s := begin
	special := func(op uint8) uint64 { return uint64((op-u.baseCode)/u.lineRange) * uint64(u.minLength) }
	for len(r.data) > r.at && !r.failed {
		op := r.u8()
		switch {
		case op >= u.baseCode:
			s.addr += special(op)
			s.line += int64(u.lineBase) + int64((op-u.baseCode)%u.lineRange)
			if err := p.row(&s, u); err != nil {
				return err
			}
		case op == 0:
			ext := &reader{data: r.take(r.uleb())}
			switch code := ext.u8(); {
			case ext.failed:
				r.failed = true
			case code == extEndSequence:
				p.end(&s)
				s = begin
			case code == extSetAddress && len(ext.data) == 5:
				s.addr = uint64(ext.u32())
			case code == extSetAddress:
				s.addr = ext.u64()
			case code == extDefineFile:
				u.files = append(u.files, file{ext.text(), ext.uleb(), -1})
			}
			r.failed = r.failed || ext.failed
		case op == opCopy:
			if err := p.row(&s, u); err != nil {
				return err
			}
		case op == opAdvancePC:
			s.addr += r.uleb() * uint64(u.minLength)
		case op == opAdvanceLine:
			s.line += r.sleb()
		case op == opSetFile:
			s.file = r.uleb()
		case op == opConstAddPC:
			s.addr += special(255)
		case op == opFixedAdvancePC:
			s.addr += uint64(r.u16())
		default: // columns, flags, and opcodes of later versions
			for range u.lengths[op-1] {
				r.uleb()
			}
		}
	}
	if r.failed {
		return errors.New("its program passes its end")
	}
	return nil
}

// row adds the range before a row, and begins that of the row.
func (p *parser) row(s *sequence, u *unit) error {
	p.end(s)
	s.last = Span{Start: s.addr}
	s.rows++
	if s.line <= 0 || s.line > math.MaxUint32 || s.file >= uint64(len(u.files)) {
		return nil // no source
	}
	f := &u.files[s.file]
	if f.index < 0 {
		name, err := p.name(u, f)
		if err != nil {
			return err
		}
		i, ok := p.index[name]
		if !ok {
			i = uint32(len(p.table.Files))
			p.index[name] = i
			p.table.Files = append(p.table.Files, name)
		}
		f.index = int64(i)
	}
	if f.index > 0 {
		s.last.File, s.last.Line = uint32(f.index), uint32(s.line)
	}
	return nil
}

// end adds the range from the last row to the current address.
func (p *parser) end(s *sequence) {
	if s.rows == 0 || s.addr <= s.last.Start || !p.code(s.last.Start) {
		return
	}
	s.last.End = s.addr
	if n := len(p.table.Spans); n > 0 {
		if b := &p.table.Spans[n-1]; b.End == s.last.Start && b.File == s.last.File && b.Line == s.last.Line {
			b.End = s.last.End
			return
		}
	}
	p.table.Spans = append(p.table.Spans, s.last)
}

// name returns the name of a file with its directories.
func (p *parser) name(u *unit, f *file) (string, error) {
	parts := []string{string(f.name)}
	if f.dir < uint64(len(u.dirs)) && f.dir > 0 {
		parts = append(parts, string(u.dirs[f.dir]))
	}
	if u.version >= 5 && len(u.dirs) > 0 {
		parts = append(parts, string(u.dirs[0]))
	} else {
		parts = append(parts, u.compilation)
	}
	name := ""
	for _, part := range parts {
		if p.room -= len(part) + 1; p.room < 0 {
			return "", errors.New("the names of its files overlap")
		}
		switch {
		case name == "":
			name = part
		case part != "":
			name = strings.TrimSuffix(part, "/") + "/" + name
		}
		if absolute(name) {
			break
		}
	}
	return name, nil
}

// absolute reports whether a name of a file on any system is absolute.
func absolute(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) || len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/')
}
