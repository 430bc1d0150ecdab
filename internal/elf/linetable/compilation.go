package linetable

// Attributes and tags of .debug_info.
const (
	attrStmtList = 0x10
	attrCompDir  = 0x1b
)

// compilation returns the directory of the compilation whose line table is at an offset, or "".
// Version 5 has it in the line table; before, only .debug_info has it.
func (p *parser) compilation(table uint64) string {
	if p.dirs == nil {
		p.dirs = make(map[uint64]string)
		for r := (&reader{data: p.read(".debug_info")}); r.at < len(r.data) && !r.failed; {
			length, wide := r.unitLength()
			p.compileUnit(&reader{data: r.take(length)}, wide)
		}
	}
	return p.dirs[table]
}

// compileUnit reads the first entry of a unit of versions 2 to 4. It ignores units that it cannot read:
// names of their files stay relative.
func (p *parser) compileUnit(r *reader, wide bool) {
	if version := r.u16(); version < 2 || version > 4 {
		return
	}
	abbrevs := &reader{data: p.read(".debug_abbrev")}
	abbrevs.take(r.offset(wide))
	if r.u8() != 8 { // size of addresses
		return
	}
	// The first entry of a unit has the first abbreviation of its table in all compilers.
	if code := r.uleb(); abbrevs.uleb() != code || code == 0 {
		return
	}
	abbrevs.uleb() // tag
	abbrevs.u8()   // children
	table, dir := uint64(0), ""
	found := false
	for !r.failed && !abbrevs.failed {
		attr, form := abbrevs.uleb(), abbrevs.uleb()
		if attr == 0 && form == 0 {
			break
		}
		text, n := p.value(r, form, wide)
		switch attr {
		case attrStmtList:
			table, found = n, true
		case attrCompDir:
			dir = string(text)
		}
	}
	if found && !r.failed && !abbrevs.failed && len(dir) <= p.room {
		p.room -= len(dir)
		p.dirs[table] = dir
	}
}
