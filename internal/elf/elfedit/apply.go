package elfedit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// tail is the end of the new file.
type tail struct {
	names    []byte // new section names; nil if unchanged
	namesOff uint64
	tableOff uint64
	drop     []filePatch // ranges of the input that are not copied
}

// position assigns offsets to the changes, the blocks and the tables.
func (p *planner) position() error {
	before := int64(0)
	for _, c := range p.changes {
		c.newAddr, c.newOff = c.addr+c.lead, uint64(int64(c.off+c.lead)-before)
		if c == p.host {
			for i := range p.blocks {
				p.blocks[i].off = uint64(int64(p.blocks[i].off) - before)
			}
		}
		before += c.closed
	}
	if err := p.placeTables(); err != nil {
		return err
	}
	end := p.result.Size
	for _, c := range p.changes {
		if !c.grown {
			continue
		}
		if p.grow.addr == 0 {
			p.newSegment(uint64(end))
		}
		align := max(c.Align, 1)
		p.grow.size = roundUp(p.grow.addr+p.grow.size, align) - p.grow.addr
		c.newAddr, c.newOff = p.grow.addr+p.grow.size, p.grow.off+p.grow.size
		p.grow.size += c.Size
	}
	if p.host == nil && len(p.blocks) > 0 {
		p.grow.size = p.stack(p.grow.addr+p.grow.size, p.grow.off+p.grow.size) - p.grow.addr
	}
	if p.grow.addr != 0 {
		end = int64(p.grow.off + p.grow.size)
	}
	p.result.Appended = uint64(len(p.data)) - p.end
	p.result.Size = end
	return nil
}

// newSegment places the new segment in the file, at or after byte end.
func (p *planner) newSegment(end uint64) {
	align := uint64(4096)
	for _, c := range p.changes {
		if c.grown {
			align = max(align, c.Align)
		}
	}
	top := uint64(0)
	for _, l := range p.Segments {
		if l.Type == elf.PtLoad {
			top = max(top, l.Addr+l.MemSize)
		}
	}
	p.grow.off = roundUp(end, align)
	p.grow.addr = roundUp(top, max(p.page, align)) + p.grow.off%p.page
}

// renamed reports whether the number of section headers changes.
func (p *planner) renamed() bool {
	return slices.ContainsFunc(p.changes, func(c *change) bool { return c.Reference != "" || c.Restore != "" })
}

// placeTables places the section headers and their names. Layout.Size is the end of
// these or of any other content, whichever is last.
func (p *planner) placeTables() error {
	p.tail.tableOff = p.shift(p.shoff)
	p.result.Size = int64(p.shift(p.end))
	if !p.renamed() {
		return nil
	}
	names := &p.Sections[p.shstrndx]
	tableEnd := p.shoff + uint64(len(p.Sections))*elf.SectionSize
	pos, rest := p.end, uint64(0)
	for i := range p.Sections {
		if s := &p.Sections[i]; i != p.shstrndx && s.InFile() > 0 {
			rest = max(rest, s.Offset+s.Size)
		}
	}
	for _, l := range p.Segments {
		if l.Type == elf.PtLoad && l.FileSize > 0 {
			rest = max(rest, l.Offset+l.FileSize)
		}
	}
	rest = max(rest, p.phoff+uint64(len(p.Segments))*elf.SegmentSize)
	if tableEnd == p.end && rest <= p.shoff {
		pos = p.shoff
		if end := names.Offset + names.Size; end <= p.shoff && p.shoff-end < 64 && rest <= names.Offset {
			pos = names.Offset
		}
	}
	p.tail.names = bytes.Clone(p.data[names.Offset : names.Offset+names.Size])
	count := uint64(len(p.Sections))
	for _, c := range p.changes {
		if c.Reference != "" {
			p.tail.names = append(append(p.tail.names, c.Reference...), 0)
			count++
		}
		if c.Restore != "" {
			count--
		}
	}
	p.tail.namesOff = p.shift(pos)
	p.tail.tableOff = roundUp(p.tail.namesOff+uint64(len(p.tail.names)), 8)
	p.result.Size = int64(p.tail.tableOff + count*elf.SectionSize)
	p.tail.drop = append(p.tail.drop, filePatch{off: pos, data: p.data[pos:max(p.end, pos)]})
	return nil
}

// headers computes the new program and section headers.
func (p *planner) headers() error {
	for i, s := range p.Segments {
		switch {
		case s.Type == elf.PtNull:
			continue
		case s.Type == elf.PtLoad:
			for _, part := range p.split(i) {
				part.Offset = p.shift(part.Offset)
				p.segments = append(p.segments, part)
			}
			continue
		}
		if b := p.blockOf(s.Offset, s.FileSize); b != nil && s.FileSize > 0 {
			delta := b.at - b.addr
			s.Offset, s.Addr, s.PAddr = b.off+(s.Offset-b.lo), s.Addr+delta, s.PAddr+delta
		} else {
			s.Offset = p.shift(s.Offset)
		}
		p.segments = append(p.segments, s)
	}
	if p.grow.addr != 0 {
		last := 0
		for i, s := range p.segments {
			if s.Type == elf.PtLoad {
				last = i + 1
			}
		}
		p.segments = slices.Insert(p.segments, last, elf.Segment{
			Type: elf.PtLoad, Flags: 4, Offset: p.grow.off, Addr: p.grow.addr, PAddr: p.grow.addr,
			FileSize: p.grow.size, MemSize: p.grow.size, Align: p.page,
		})
	}
	for i := range p.segments {
		if s := &p.segments[i]; s.Type == elf.PtPhdr && s.FileSize > 0 {
			s.FileSize, s.MemSize = uint64(len(p.segments))*elf.SegmentSize, uint64(len(p.segments))*elf.SegmentSize
			if p.tableAt != p.phoff {
				first := p.Segments[slices.IndexFunc(p.Segments, func(l elf.Segment) bool { return l.Type == elf.PtLoad })]
				s.Offset, s.Addr, s.PAddr = p.tableAt, first.Addr+p.tableAt, first.PAddr+p.tableAt
			}
		}
	}
	p.sections = slices.Clone(p.Sections)
	for i := range p.sections {
		s := &p.sections[i]
		if b := p.blockOf(s.Offset, s.InFile()); b != nil && s.InFile() > 0 {
			s.Addr, s.Offset = s.Addr+(b.at-b.addr), b.off+(s.Offset-b.lo)
			continue
		}
		s.Offset = p.shift(s.Offset)
	}
	return p.changedSections()
}

// changedSections writes the headers of the changed sections.
func (p *planner) changedSections() error {
	if p.tail.names != nil {
		names := &p.sections[p.shstrndx]
		names.Offset, names.Size = p.tail.namesOff, uint64(len(p.tail.names))
	}
	nameAt := p.Sections[p.shstrndx].Size
	remove := -1
	for _, c := range p.changes {
		s := &p.sections[c.Section]
		switch {
		case c.Reference != "":
			ref := *s
			ref.Name, ref.SectionHeader.Name = []byte(c.Reference), uint32(nameAt)
			ref.Addr, ref.Offset, ref.Size, ref.Align = c.newAddr, c.newOff, c.Size, 1
			p.sections = append(p.sections, ref)
			s = &p.sections[c.Section]
			s.Type, s.Size = elf.ShtNobits, 0
			s.Addr, s.Offset = c.newAddr, c.newOff
			nameAt += uint64(len(c.Reference)) + 1
		case c.Restore != "":
			s.Type = elf.ShtProgbits
			remove, _ = p.Section(c.Restore)
			fallthrough
		default:
			s.Addr, s.Offset, s.Size = c.newAddr, c.newOff, c.Size
		}
	}
	if remove >= 0 {
		p.removed = remove
	}
	p.orderSections()
	return nil
}

// orderSections removes p.removed. If a section is new or removed, it sorts section headers by
// offset: patchelf expects that order, and overwrites the first sections otherwise. All
// other changes keep the order.
func (p *planner) orderSections() {
	if p.removed == 0 && len(p.sections) == len(p.Sections) {
		return
	}
	var order []int
	for i := range p.sections {
		if i == 0 || i != p.removed {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order[1:], func(a, b int) int { return cmp.Compare(p.sections[a].Offset, p.sections[b].Offset) })
	sections := make([]Section, len(order))
	p.numbers = make([]uint64, len(p.sections))
	for i, old := range order {
		sections[i], p.numbers[old] = p.sections[old], uint64(i)
	}
	p.sections = sections
	for i := range p.sections {
		s := &p.sections[i]
		s.Link = uint32(p.renumber(uint64(s.Link)))
		if s.Type == elf.ShtRela || s.Type == elf.ShtRel || s.Flags&elf.ShfInfoLink != 0 {
			s.Info = uint32(p.renumber(uint64(s.Info)))
		}
	}
}

// renumber returns the new number of a section.
func (p *planner) renumber(section uint64) uint64 {
	if section < uint64(len(p.numbers)) {
		return p.numbers[section]
	}
	return section
}

// patch replaces a word of the input.
func (p *planner) patch(off, value uint64) {
	p.patches = append(p.patches, filePatch{off, binary.LittleEndian.AppendUint64(nil, value)})
}

// slot returns the value that a change sets for the pointer at an address.
func (p *planner) slot(addr uint64) (value uint64, ok bool) {
	for _, c := range p.changes {
		if off, ok := c.Slots[Place{Offset: addr}]; ok {
			return c.newAddr + off, true
		}
	}
	return 0, false
}

// follow returns the new target of a pointer to an address.
func (p *planner) follow(addr uint64) (moved uint64, exact bool) {
	for _, c := range p.changes {
		if addr < c.addr || addr-c.addr >= c.old || c.old == 0 {
			continue
		}
		off, exact := uint64(0), false
		if c.Move != nil {
			off, exact = c.Move(addr - c.addr)
		}
		return c.newAddr + min(off, c.Size), exact
	}
	if b := p.blockAt(addr); b != nil {
		return b.at + (addr - b.addr), true
	}
	return addr, true
}

// newSymbol returns the new value of a symbol.
func (p *planner) newSymbol(section uint64, value uint64) uint64 {
	for _, c := range p.changes {
		ref := -1
		if c.Restore != "" {
			ref = p.removed
		}
		switch {
		case section != uint64(c.Section) && int(section) != ref, !p.within(section, value):
			continue
		case c.Reference != "": // a symbol of the section, which is empty
			return c.newAddr
		case c.old > 0 && value >= c.addr && value-c.addr < c.old:
			moved, _ := p.follow(value)
			return moved
		case c.old > 0 && value-c.addr == c.old:
			return c.newAddr + c.Size
		}
		return c.newAddr
	}
	if section > 0 && section < uint64(len(p.Sections)) {
		s := &p.Sections[section]
		if b := p.blockOf(s.Offset, s.InFile()); b != nil && s.InFile() > 0 && p.within(section, value) {
			return value + (b.at - b.addr)
		}
	}
	return value
}

// within reports whether the value of a symbol is an address in its section. In
// files linked with --emit-relocs, GNU strip leaves numbers of removed sections in
// dynamic symbols.
func (p *planner) within(section, value uint64) bool {
	s := &p.Sections[section]
	return value >= s.Addr && value-s.Addr <= s.Size
}

// pointers updates all addresses that the loader reads.
func (p *planner) pointers() error {
	seen := make(map[uint64]bool)
	err := p.Pointers(func(r Pointer) error {
		value, explicit := p.slot(r.Slot)
		if explicit {
			seen[r.Slot] = true
		} else {
			var exact bool
			if value, exact = p.follow(r.Value); !exact {
				return fmt.Errorf("relocation of address 0x%x: it points to 0x%x, where no device code begins, so the code cannot move", r.Slot, r.Value)
			}
		}
		return p.redirect(r, value)
	})
	if err != nil {
		return err
	}
	for _, c := range p.changes {
		slots := slices.SortedFunc(maps.Keys(c.Slots), func(a, b Place) int { return cmp.Compare(a.Offset, b.Offset) })
		for _, slot := range slots {
			if seen[slot.Offset] {
				continue
			}
			off, ok := p.Offset(slot.Offset, 8)
			if !ok {
				return fmt.Errorf("pointer at address 0x%x: it is not in the file", slot.Offset)
			}
			p.patch(off, c.newAddr+c.Slots[slot])
		}
	}
	for _, e := range p.dynamic {
		if b := p.blockAt(e.value); b != nil && addressTag(e.tag) {
			p.patch(e.at, b.at+(e.value-b.addr))
		}
	}
	for _, patch := range p.edit.Patches {
		off, ok := p.Offset(patch.Addr, uint64(len(patch.Data)))
		if !ok {
			return fmt.Errorf("address 0x%x: it is not in the file", patch.Addr)
		}
		p.patches = append(p.patches, filePatch{off, patch.Data})
	}
	return nil
}

// redirect changes the target of a relocated pointer.
func (p *planner) redirect(r Pointer, value uint64) error {
	if r.Form == Symbolic {
		symbol := r.symbol.value
		if r.symbol.at != 0 {
			symbol = p.newSymbol(r.symbol.section, symbol)
		}
		if old := r.Value - r.symbol.value; value-symbol != old {
			p.patch(r.record+16, value-symbol)
		}
		return nil
	}
	if value == r.Value {
		return nil
	}
	off, inFile := p.Offset(r.Slot, 8)
	switch {
	case r.Form == Unknown:
		return fmt.Errorf("relocation of address 0x%x: its type is not supported for pointers to device code", r.Slot)
	case r.Form == Packed:
		p.patch(off, value)
	default:
		p.patch(r.record+16, value)
		if inFile && binary.LittleEndian.Uint64(p.data[off:]) == r.Value && r.Value != 0 {
			p.patch(off, value)
		}
	}
	return nil
}

// symbols updates the values of symbols, and the static relocations that linkers
// keep with --emit-relocs.
func (p *planner) symbols() error {
	for i := range p.Sections {
		s := &p.Sections[i]
		switch {
		case s.Type == elf.ShtSymtab || s.Type == elf.ShtDynsym:
			p.symbolTable(s)
		case s.Type == elf.ShtRela && s.Flags&elf.ShfAlloc == 0:
			p.staticRelocations(s)
		}
	}
	return nil
}

func (p *planner) symbolTable(table *Section) {
	for sym := range p.symbolsOf(table) {
		if sym.section == elf.ShnUndef || sym.section >= elf.ShnLoReserve || sym.section >= uint64(len(p.Sections)) {
			continue
		}
		moved, limit := p.newSymbol(sym.section, sym.value), uint64(math.MaxUint64)
		number, within := sym.section, p.within(sym.section, sym.value)
		for _, c := range p.changes {
			if sym.section == uint64(c.Section) && within {
				if sym.kind == elf.TypeSection {
					moved = c.newAddr
				}
				if c.old > 0 && c.Reference != "" {
					limit = moved
				} else if c.old > 0 {
					limit = c.newAddr + c.Size
				}
			}
			if c.Restore != "" && int(sym.section) == p.removed && within {
				number = uint64(c.Section)
			}
		}
		p.moveSymbol(sym, moved, limit)
		if number = p.renumber(number); number != sym.section {
			p.patches = append(p.patches, filePatch{sym.at + 6, binary.LittleEndian.AppendUint16(nil, uint16(number))})
		}
	}
}

// moveSymbol updates the value of a symbol, and its size, so that it does not pass the end of its section
// (math.MaxUint64 for any).
func (p *planner) moveSymbol(sym symbol, value, end uint64) {
	if value != sym.value {
		p.patch(sym.at+8, value)
	}
	if room := end - min(value, end); sym.size > room && end < math.MaxUint64 {
		p.patch(sym.at+16, room)
	}
}

func (p *planner) staticRelocations(table *Section) {
	if uint64(table.Link) >= uint64(len(p.Sections)) {
		return
	}
	symtab := &p.Sections[table.Link]
	for r := range p.relas(table.Offset, table.InFile()) {
		form, _ := p.form(r.typ)
		if form != Symbolic || uint64(r.symbol) >= symtab.InFile()/elf.SymbolSize {
			continue
		}
		sym := p.symbolAt(symtab.Offset + uint64(r.symbol)*elf.SymbolSize)
		goal, explicit := p.slot(r.slot)
		if !explicit {
			goal, _ = p.follow(sym.value + r.addend)
		}
		if now := goal - p.newSymbol(sym.section, sym.value); now != r.addend && (explicit || goal != sym.value+r.addend) {
			p.patch(r.at+16, now)
		}
	}
}

// write assembles the file.
func (p *planner) write() error {
	var parts []content.Part
	add := func(off uint64, c content.Content) {
		if c.Len() > 0 {
			parts = append(parts, content.Part{Offset: int64(off), Content: c})
		}
	}
	table, _ := binary.Append(nil, binary.LittleEndian, p.segments)
	add(0, content.Memory(p.fileHeader()))
	add(p.shift(p.tableAt), content.Memory(table))
	add(p.tail.tableOff, content.Memory(p.sectionTable()))
	if p.tail.names != nil {
		add(p.tail.namesOff, content.Memory(p.tail.names))
	}
	for _, c := range p.changes {
		for _, part := range c.Parts {
			if part.Offset < 0 || uint64(part.Offset) > c.Size || uint64(part.Content.Len()) > c.Size-uint64(part.Offset) {
				return fmt.Errorf("section %s: content at byte %d passes its size of %d", p.Sections[c.Section].Name, part.Offset, c.Size)
			}
			add(c.newOff+uint64(part.Offset), part.Content)
		}
	}
	if err := p.sortPatches(); err != nil {
		return err
	}
	for _, b := range p.blocks {
		parts = p.copied(parts, b.lo, b.hi, b.off)
	}
	for _, r := range p.kept(uint64(len(table))) {
		parts = p.copied(parts, r[0], r[1], p.shift(r[0]))
	}
	if p.result.Appended > 0 {
		add(uint64(p.result.Size), p.in.Slice(int64(p.end), int64(p.result.Appended)))
		p.result.Size += int64(p.result.Appended)
	}
	at, err := inOrder(parts)
	if err != nil {
		return err
	}
	p.result.Size = max(p.result.Size, at)
	p.result.Parts = parts
	return nil
}

// inOrder sorts the parts of a file and returns the end of the last one.
func inOrder(parts []content.Part) (end int64, err error) {
	slices.SortStableFunc(parts, func(a, b content.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, part := range parts {
		if part.Offset < end {
			return 0, fmt.Errorf("byte 0x%x of the new file: two parts of the file overlap there; the layout of the input is not supported", part.Offset)
		}
		end = part.Offset + part.Content.Len()
	}
	return end, nil
}

// sortPatches sorts the patches and returns an error if they overlap.
func (p *planner) sortPatches() error {
	slices.SortStableFunc(p.patches, func(a, b filePatch) int { return cmp.Compare(a.off, b.off) })
	kept := p.patches[:0]
	for _, patch := range p.patches {
		if n := len(kept); n > 0 && kept[n-1].off+uint64(len(kept[n-1].data)) > patch.off {
			if kept[n-1].off == patch.off && bytes.Equal(kept[n-1].data, patch.data) {
				continue
			}
			return fmt.Errorf("byte 0x%x: two changes overlap there; the tables of the file share bytes", patch.off)
		}
		kept = append(kept, patch)
	}
	p.patches = kept
	return nil
}

// kept returns the ranges of the input that are copied to the offsets that
// shift returns.
func (p *planner) kept(table uint64) [][2]uint64 {
	out := [][2]uint64{{0, elf.HeaderSize}, {p.phoff, p.phoff + uint64(len(p.Segments))*elf.SegmentSize}, {p.tableAt, p.tableAt + table}}
	out = append(out, [2]uint64{p.shoff, p.shoff + uint64(len(p.Sections))*elf.SectionSize})
	for _, d := range p.tail.drop {
		out = append(out, [2]uint64{d.off, d.off + uint64(len(d.data))})
	}
	cuts := []uint64{p.end}
	for _, c := range p.changes {
		if c.old > 0 {
			out = append(out, [2]uint64{c.off, c.cut})
		}
		cuts = append(cuts, c.cut)
	}
	if p.removed > 0 {
		s := &p.Sections[p.removed]
		out = append(out, [2]uint64{s.Offset, s.Offset + s.InFile()})
	}
	slices.SortFunc(out, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	slices.Sort(cuts)
	var ranges [][2]uint64
	add := func(lo, hi uint64) {
		for _, cut := range cuts {
			if lo < cut && cut < hi {
				ranges = append(ranges, [2]uint64{lo, cut})
				lo = cut
			}
		}
		if lo < hi {
			ranges = append(ranges, [2]uint64{lo, hi})
		}
	}
	at := uint64(0)
	for _, o := range out {
		if o[0] > at {
			add(at, min(o[0], p.end))
		}
		at = max(at, o[1])
	}
	if at < p.end {
		add(at, p.end)
	}
	return ranges
}

// near is the largest distance of patches that are written together with the
// bytes between them.
const near = 4096

// copied adds a range of the input, with its patches, to parts.
func (p *planner) copied(parts []content.Part, lo, hi, to uint64) []content.Part {
	emit := func(off uint64, c content.Content) {
		if c.Len() > 0 {
			parts = append(parts, content.Part{Offset: int64(to + (off - lo)), Content: c})
		}
	}
	at := lo
	i, _ := slices.BinarySearchFunc(p.patches, lo, func(f filePatch, off uint64) int { return cmp.Compare(f.off, off) })
	for i < len(p.patches) && p.patches[i].off < hi {
		from := p.patches[i].off
		end := from
		j := i
		for ; j < len(p.patches) && p.patches[j].off < hi && (j == i || p.patches[j].off-end <= near); j++ {
			end = min(p.patches[j].off+uint64(len(p.patches[j].data)), hi)
		}
		b := bytes.Clone(p.data[from:end])
		for ; i < j; i++ {
			copy(b[p.patches[i].off-from:], p.patches[i].data)
		}
		emit(at, p.in.Slice(int64(at), int64(from-at)))
		emit(from, content.Memory(b))
		at = end
	}
	emit(at, p.in.Slice(int64(at), int64(hi-at)))
	return parts
}

func (p *planner) fileHeader() []byte {
	b := bytes.Clone(p.data[:elf.HeaderSize])
	if len(p.segments) > 0 {
		binary.LittleEndian.PutUint64(b[32:], p.shift(p.tableAt))
		binary.LittleEndian.PutUint16(b[56:], uint16(len(p.segments)))
	}
	binary.LittleEndian.PutUint64(b[40:], p.tail.tableOff)
	if n := len(p.sections); binary.LittleEndian.Uint16(b[60:]) != 0 && n < elf.ShnLoReserve {
		binary.LittleEndian.PutUint16(b[60:], uint16(n))
	}
	if binary.LittleEndian.Uint16(b[62:]) != elf.ShnXindex {
		binary.LittleEndian.PutUint16(b[62:], uint16(p.renumber(uint64(p.shstrndx))))
	}
	return b
}

func (p *planner) sectionTable() (table []byte) {
	for i := range p.sections {
		table, _ = binary.Append(table, binary.LittleEndian, &p.sections[i].SectionHeader)
	}
	return table
}
