package elfedit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// Change replaces the content of one section.
type Change struct {
	// Section is the index of the section. It must be loaded and read-only, with
	// content in the file, or be the empty section of an earlier change with a
	// Reference.
	Section int
	// Parts are the new content by offset in the section, in order, Size bytes in
	// total. Bytes outside all parts are zero.
	Parts []content.Part
	Size  uint64
	// Align is the alignment of the content if it is moved.
	Align uint64

	// Slots maps the places of pointers to their new targets, which are offsets in the
	// new content.
	Slots map[Place]uint64
	// Move returns the offset in the new content of a byte in the old content. It
	// returns false if the result is only approximate: symbols can refer to it,
	// pointers cannot.
	Move func(offset uint64) (moved uint64, exact bool)

	// Reference, if not empty, is the name of a new section that describes the
	// content. The section itself becomes empty.
	Reference string
	// Restore names the section that an earlier change made for its Reference.
	// That section is removed, and the content of Section is restored.
	Restore string
}

// Patch replaces loaded bytes.
type Patch struct {
	Addr uint64
	Data []byte
}

// Edit is a set of changes to a file.
type Edit struct {
	Changes []Change
	Patches []Patch
}

// Layout is a file to write.
type Layout struct {
	// Parts are the bytes of the file by offset, in order, Size bytes in total. Bytes
	// outside all parts are zero.
	Parts []content.Part
	Size  int64
	// Appended is the number of bytes after the last section and header of the
	// input. They remain at the end.
	Appended uint64
	// Warnings describe changes that could not be made as requested.
	Warnings []string
}

// Write writes the file.
func (p *Layout) Write(sink content.Sink) error {
	return content.WriteParts(sink, p.Parts, p.Size)
}

// change is a Change with its position.
type change struct {
	*Change
	addr, off, old uint64 // of the old content
	load           int    // the segment that contains it
	cut            uint64 // file offset from which the file moves
	insert         bool   // the content goes into a hole after the segment
	grown          bool   // the content goes into a new segment
	lead           uint64 // bytes before the content that program headers use
	keep           uint64 // bytes at the old position, including those of lead
	extra          uint64 // bytes of moved sections after them
	fixed          bool   // the hole is not closed
	closed         int64  // distance by which following bytes move forward
	newAddr        uint64
	newOff         uint64
}

// end returns the address after the bytes at the old position.
func (c *change) end() uint64 { return c.addr + c.keep + c.extra }

// block is a range of sections that move together.
type block struct {
	lo, hi uint64 // file offsets
	addr   uint64
	align  uint64
	at     uint64 // new address
	off    uint64 // new file offset
}

type planner struct {
	*File
	edit    Edit
	page    uint64    // of which bytes move multiples; for objects, the largest alignment
	changes []*change // in the order of the file
	blocks  []block
	host    *change // the change with the blocks after its content; nil for the new segment
	grow    struct {
		addr, off, size uint64
	}
	end uint64 // of the input without appended bytes
	// tableAt is the new offset of the program header table: its old one, or the start
	// of the file if another tool moved it from there.
	tableAt  uint64
	segments []elf.Segment
	sections []Section
	patches  []filePatch
	result   Layout
	tail     tail
	removed  int // section to remove; 0 for none
	// numbers are the new numbers of sections; nil if they do not change.
	numbers []uint64
}

// filePatch replaces bytes at an offset of the input.
type filePatch struct {
	off  uint64
	data []byte
}

// Layout computes the file with the changes of an edit.
func (f *File) Layout(e Edit) (*Layout, error) {
	p := &planner{File: f, edit: e, page: f.pageSize(), end: f.codeEnd(), tableAt: f.phoff}
	steps := []func() error{p.place, p.layout, p.position, p.headers, p.pointers, p.symbols, p.write}
	if f.Type == elf.EtRel {
		p.page, p.end = f.largestAlignment(), uint64(len(f.data))
		steps = []func() error{p.placeInObject, p.position, p.headers, p.references, p.objectSymbols, p.write}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &p.result, nil
}

// place finds the old content of every change and checks that it can be replaced.
func (p *planner) place() error {
	for i := range p.edit.Changes {
		c := &change{Change: &p.edit.Changes[i], load: -1}
		s := &p.Sections[c.Section]
		if s.Flags&elf.ShfAlloc == 0 || s.Flags&elf.ShfWrite != 0 || s.Flags&elf.ShfCompressed != 0 {
			return fmt.Errorf("section %s: found flags 0x%x, expected a loaded, read-only section", s.Name, s.Flags)
		}
		var err error
		if c.Restore != "" {
			err = p.placeRestored(c)
		} else {
			err = p.placeOld(c, c.Section)
		}
		if err != nil {
			return err
		}
		p.changes = append(p.changes, c)
	}
	p.sortChanges()
	first := slices.IndexFunc(p.Segments, func(l elf.Segment) bool { return l.Type == elf.PtLoad })
	if l := p.Segments[first]; p.restores() && l.Offset == 0 && p.phoff >= l.FileSize {
		p.tableAt = elf.HeaderSize
	}
	return nil
}

// sortChanges puts the changes in the order of the file.
func (p *planner) sortChanges() {
	slices.SortFunc(p.changes, func(a, b *change) int { return cmp.Compare(a.off, b.off) })
}

// restores reports whether content is restored that another edit or tool removed.
func (p *planner) restores() bool {
	return slices.ContainsFunc(p.changes, func(c *change) bool { return c.Restore != "" })
}

// placeOld records the position of a section with content.
func (p *planner) placeOld(c *change, section int) error {
	s := &p.Sections[section]
	if s.Type == elf.ShtNobits || s.Size == 0 {
		return fmt.Errorf("section %s has no contents in the file", s.Name)
	}
	c.addr, c.off, c.old, c.cut = s.Addr, s.Offset, s.Size, s.Offset+s.Size
	if err := p.loadOf(c, s); err != nil {
		return err
	}
	if err := p.alone(section); err != nil {
		return err
	}
	c.keep = c.Size
	if c.Size > c.old {
		c.keep, c.grown = 0, true
	}
	load := &p.Segments[c.load]
	if load.Offset+load.FileSize == c.cut && load.MemSize > load.FileSize {
		c.fixed = true
	}
	return nil
}

// loadOf finds the segment of a change.
func (p *planner) loadOf(c *change, s *Section) error {
	for i, l := range p.Segments {
		if l.Type == elf.PtLoad && c.addr >= l.Addr && c.addr-l.Addr <= l.FileSize && s.Size <= l.FileSize-(c.addr-l.Addr) {
			if l.Offset+(c.addr-l.Addr) != c.off {
				return fmt.Errorf("section %s: found it at byte 0x%x of the file, expected byte 0x%x, which is loaded to its address 0x%x", s.Name, c.off, l.Offset+(c.addr-l.Addr), c.addr)
			}
			c.load = i
			return nil
		}
	}
	return fmt.Errorf("section %s: no segment loads its 0x%x bytes at address 0x%x", s.Name, s.Size, c.addr)
}

// alone checks that nothing else uses the bytes of a section.
func (p *planner) alone(section int) error {
	s := &p.Sections[section]
	lo, hi := s.Offset, s.Offset+s.Size
	clash := func(what string, off, size uint64) error {
		if size > 0 && off < hi && lo < off+size {
			return fmt.Errorf("section %s overlaps %s at byte 0x%x", s.Name, what, off)
		}
		return nil
	}
	for _, table := range []struct {
		what      string
		off, size uint64
	}{
		{"the ELF header", 0, elf.HeaderSize},
		{"the table of program headers", p.phoff, uint64(len(p.Segments)) * elf.SegmentSize},
		{"the table of section headers", p.shoff, uint64(len(p.Sections)) * elf.SectionSize},
	} {
		if err := clash(table.what, table.off, table.size); err != nil {
			return err
		}
	}
	for i := range p.Sections {
		if i != section {
			if err := clash("section "+string(p.Sections[i].Name), p.Sections[i].Offset, p.Sections[i].InFile()); err != nil {
				return err
			}
		}
	}
	for i, l := range p.Segments {
		if l.Type == elf.PtNull || l.Type == elf.PtLoad && l.Offset <= lo && hi <= l.Offset+l.FileSize {
			continue
		}
		if err := clash(fmt.Sprintf("segment %d", i), l.Offset, l.FileSize); err != nil {
			return err
		}
	}
	loads := 0
	for _, l := range p.Segments {
		if l.Type == elf.PtLoad && l.FileSize > 0 && l.Offset < hi && lo < l.Offset+l.FileSize {
			loads++
		}
	}
	if loads != 1 && p.Type != elf.EtRel {
		return fmt.Errorf("section %s: %d segments load its bytes, expected one", s.Name, loads)
	}
	return nil
}

// placeRestored finds a position for content that an earlier change removed: the
// hole after the segment with the reference.
func (p *planner) placeRestored(c *change) error {
	ref, err := p.Section(c.Restore)
	if err != nil {
		return err
	}
	if ref < 0 {
		return fmt.Errorf("section %s: missing", c.Restore)
	}
	s := &p.Sections[ref]
	c.addr, c.off = s.Addr, s.Offset
	if err := p.loadOf(c, s); err != nil {
		return err
	}
	load := p.Segments[c.load]
	end := load.Addr + load.FileSize
	align := max(c.Align, 1)
	at := roundUp(end, align)
	hole := uint64(0)
	for _, l := range p.Segments {
		if l.Type == elf.PtLoad && l.Addr > load.Addr {
			hole = l.Addr / p.page * p.page
			break
		}
	}
	c.cut = load.Offset + load.FileSize
	c.addr, c.off = at, load.Offset+(at-load.Addr)
	if load.MemSize != load.FileSize || at < end || hole <= at || c.Size > hole-at {
		c.grown = true
		c.fixed = true
		return nil
	}
	c.insert, c.keep = true, c.Size
	return nil
}

func roundUp(n, align uint64) uint64 {
	if align <= 1 {
		return n
	}
	return (n + align - 1) / align * align
}

// close computes the distance by which the bytes after a change move.
func (c *change) close(page uint64) {
	kept := c.off + c.keep + c.extra
	switch {
	case c.fixed:
		c.closed = 0
	case c.insert:
		c.closed = -int64(roundUp(kept-c.cut, page))
	default:
		c.closed = int64((c.cut - kept) / page * page)
	}
}

// shift returns the output offset of an input offset, for bytes in neither a change
// nor a block.
func (p *planner) shift(off uint64) uint64 {
	moved := off
	for _, c := range p.changes {
		if off >= c.cut && !(c.grown && c.fixed) {
			moved = uint64(int64(moved) - c.closed)
		}
	}
	return moved
}

// layout selects the holes to close and the sections to move for more program
// headers.
func (p *planner) layout() error {
	for range 4*len(p.changes) + 8 {
		grown := 0
		for _, c := range p.changes {
			if c.grown {
				grown = 1
			}
			c.close(p.page)
		}
		loads := 0
		for i, l := range p.Segments {
			if l.Type == elf.PtLoad {
				loads += len(p.split(i)) - 1
			}
			if l.Type == elf.PtNull {
				loads--
			}
		}
		before := p.leads()
		blocks, err := p.makeRoom(loads + grown)
		if err != nil && p.leaveOpen() {
			p.result.Warnings = append(p.result.Warnings, fmt.Sprintf("the space of the old device code stays in the file: %v", err))
			continue
		}
		if err != nil {
			return err
		}
		stable, err := p.accommodate(blocks)
		if err != nil || stable && p.leads() == before {
			return err
		}
	}
	return fmt.Errorf("program headers: no layout found")
}

// leaveOpen keeps the holes of changes open, which requires no program headers. It
// reports whether this changes the layout.
func (p *planner) leaveOpen() (some bool) {
	for _, c := range p.changes {
		if !c.fixed && !c.insert {
			c.fixed, some = true, true
			c.keep, c.lead, c.extra = c.keep-c.lead, 0, 0
		}
	}
	p.blocks, p.host = nil, nil
	return some
}

// leads returns the total lead of the changes plus the number of fixed ones. It
// differs after a change gives away more bytes.
func (p *planner) leads() (sum uint64) {
	for _, c := range p.changes {
		if sum += c.lead; c.fixed {
			sum++
		}
	}
	return sum
}

// accommodate assigns positions to the blocks. It reports whether the layout is
// unchanged.
func (p *planner) accommodate(blocks []block) (bool, error) {
	same := len(blocks) == len(p.blocks)
	for i := range blocks {
		same = same && blocks[i].lo == p.blocks[i].lo && blocks[i].hi == p.blocks[i].hi
	}
	if same {
		return true, nil
	}
	p.blocks, p.host = blocks, nil
	for _, c := range p.changes {
		c.extra = 0
	}
	if len(blocks) == 0 {
		return false, nil
	}
	for _, c := range p.changes {
		if c.insert || c.grown && c.fixed {
			continue
		}
		end := p.stack(c.addr+c.keep, c.off+c.keep)
		if end-c.addr > c.old {
			continue
		}
		p.host, c.extra = c, end-c.addr-c.keep
		was := c.closed
		if c.close(p.page); was > 0 && c.closed == 0 {
			c.fixed = true
		}
		return false, nil
	}
	for _, c := range p.changes {
		if c.grown {
			return false, nil // after the content of the new segment
		}
	}
	// Without space for a header, no segment is split.
	for _, c := range p.changes {
		if !c.insert {
			c.fixed = true
			continue
		}
		c.insert, c.grown, c.fixed, c.keep = false, true, true, 0
	}
	p.blocks = nil
	return false, nil
}

// stack places the blocks at consecutive addresses and returns the address after
// them.
func (p *planner) stack(addr, off uint64) uint64 {
	base := off - addr
	for i := range p.blocks {
		b := &p.blocks[i]
		addr = roundUp(addr, b.align) + b.addr%b.align
		b.at, b.off = addr, addr+base
		addr += b.hi - b.lo
	}
	return addr
}

// split returns the segments that replace a loaded segment, with file offsets
// of the input.
func (p *planner) split(index int) []elf.Segment {
	whole := p.Segments[index]
	// Content that is restored after a reference extends the segment of the reference.
	inserted := slices.ContainsFunc(p.changes, func(c *change) bool { return c.insert && c.load == index })
	if !inserted && p.standsFor(whole) {
		return nil
	}
	var parts []elf.Segment
	add := func(from, file, mem uint64) {
		if mem > from {
			s := whole
			s.Addr, s.Offset, s.PAddr = from, whole.Offset+(from-whole.Addr), whole.PAddr+(from-whole.Addr)
			s.FileSize, s.MemSize = max(file, from)-from, mem-from
			parts = append(parts, s)
		}
	}
	from, file, mem := whole.Addr, whole.Addr+whole.FileSize, whole.Addr+whole.MemSize
	for _, c := range p.changes {
		if c.load != index || c.closed == 0 {
			continue
		}
		if c.insert {
			file, mem = c.end(), c.end()
			continue
		}
		add(from, c.end(), c.end())
		from = c.addr + c.old
	}
	add(from, file, mem)
	return parts
}

// standsFor reports whether a segment is no longer required: it contains only the
// memory of a section whose content is restored, a removed reference, or the program
// header table at its former position. Other tools leave such segments.
func (p *planner) standsFor(l elf.Segment) bool {
	if !p.restores() || l.Flags&2 != 0 || l.MemSize == 0 {
		return false
	}
	table := l.FileSize > 0 && l.Offset <= p.phoff && p.phoff < l.Offset+l.FileSize
	reason := table && p.tableAt != p.phoff
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Flags&elf.ShfAlloc == 0 || s.Size == 0 || s.Addr >= l.Addr+l.MemSize || s.Addr+s.Size <= l.Addr {
			continue
		}
		gone := slices.ContainsFunc(p.changes, func(c *change) bool {
			return c.Restore != "" && (c.Section == i && s.Type == elf.ShtNobits && l.FileSize == 0 || c.Restore == string(s.Name))
		})
		if !gone {
			return false
		}
		reason = true
	}
	return reason && (!table || p.tableAt != p.phoff)
}

// makeRoom returns the sections that must move for more program headers.
func (p *planner) makeRoom(more int) ([]block, error) {
	moved := p.tableAt != p.phoff
	if more <= 0 && !moved {
		return nil, nil
	}
	if len(p.Segments)+more >= 0xffff {
		return nil, fmt.Errorf("program headers: found %d, the most that a file can have", len(p.Segments))
	}
	lo := p.phoff + uint64(len(p.Segments))*elf.SegmentSize
	hi := uint64(int64(lo) + int64(more)*elf.SegmentSize)
	if moved {
		lo, hi = p.tableAt, p.tableAt+(hi-p.phoff)
	}
	var blocks []block
	in := slices.IndexFunc(p.Segments, func(l elf.Segment) bool {
		return l.Type == elf.PtLoad && l.Offset <= p.tableAt && p.tableAt < l.Offset+l.FileSize
	})
	if in >= 0 && hi > p.Segments[in].Offset+p.Segments[in].FileSize {
		return nil, fmt.Errorf("program headers: no room for %d more before the end of their segment", more)
	}
	if p.shoff < hi && lo < p.shoff+uint64(len(p.Sections))*elf.SectionSize {
		return nil, fmt.Errorf("program headers: no room for %d more before the section headers", more)
	}
	for _, c := range p.changes {
		if c.old > 0 && c.off < hi && lo < c.cut {
			p.giveLead(c, hi)
		}
	}
	order := make([]int, 0, len(p.Sections))
	for i := range p.Sections {
		if p.Sections[i].InFile() > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Sections[a].Offset, p.Sections[b].Offset) })
	for _, i := range order {
		s := &p.Sections[i]
		changed := slices.ContainsFunc(p.changes, func(c *change) bool { return c.Section == i })
		if s.Offset >= hi || s.Offset+s.Size <= lo || changed {
			continue
		}
		if len(blocks) > 0 && s.Offset+s.Size <= blocks[len(blocks)-1].hi {
			continue // moves with the previous one
		}
		b, err := p.movable(i)
		if err != nil {
			return nil, fmt.Errorf("program headers: no room for %d more: %w", more, err)
		}
		if len(blocks) > 0 && b.lo < blocks[len(blocks)-1].hi {
			return nil, fmt.Errorf("program headers: no room for %d more: section %s shares bytes with others", more, s.Name)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// giveLead assigns bytes at the start of a change to the program header table.
func (p *planner) giveLead(c *change, hi uint64) {
	body := c.keep - c.lead
	lead := roundUp(hi-c.off, max(c.Align, 8))
	if lead+body > c.old {
		c.fixed, lead = true, 0 // the hole is not closed, so that it requires no header
	}
	c.lead, c.keep = lead, lead+body
}

// tables are the types of sections and the dynamic tags through which they are found.
var tables = [...]struct {
	section uint32
	tag     uint64
}{
	{elf.ShtHash, elf.DtHash}, {elf.ShtGNUHash, elf.DtGNUHash}, {elf.ShtDynsym, elf.DtSymtab}, {elf.ShtStrtab, elf.DtStrtab},
	{elf.ShtRela, elf.DtRela}, {elf.ShtRelr, elf.DtRelr}, {elf.ShtGNUVersym, elf.DtVersym}, {elf.ShtGNUVerdef, elf.DtVerdef},
	{elf.ShtGNUVerneed, elf.DtVerneed},
}

// foundBy returns the dynamic tag through which sections of a type are found, 0 for none.
func foundBy(section uint32) uint64 {
	for _, t := range tables {
		if t.section == section {
			return t.tag
		}
	}
	return 0
}

// addressTag reports whether the value of a dynamic tag is an address.
func addressTag(tag uint64) bool {
	for _, t := range tables {
		if t.tag == tag {
			return true
		}
	}
	return tag == elf.DtJmpRel
}

// movable returns the block that a section moves with.
func (p *planner) movable(section int) (block, error) {
	s := &p.Sections[section]
	fail := func(why string) (block, error) {
		return block{}, fmt.Errorf("section %s cannot move: %s", s.Name, why)
	}
	b := block{lo: s.Offset, hi: s.Offset + s.Size, addr: s.Addr, align: max(s.Align, 8)}
	if off, ok := p.Offset(s.Addr, s.Size); !ok || off != s.Offset || s.Flags&elf.ShfAlloc == 0 {
		return fail("no segment loads it at its address")
	}
	if s.Flags&elf.ShfWrite != 0 {
		return fail("it is writable")
	}
	if s.Align > 4096 || s.Align&(s.Align-1) != 0 {
		return fail(fmt.Sprintf("its alignment is 0x%x", s.Align))
	}
	named := false
	for _, l := range p.Segments {
		if l.Type != elf.PtInterp && l.Type != elf.PtNote && l.Type != elf.PtGNUProperty || l.FileSize == 0 {
			continue
		}
		if l.Offset < b.hi && b.lo < l.Offset+l.FileSize {
			named = true
			b.addr -= b.lo - min(b.lo, l.Offset)
			b.lo, b.hi = min(b.lo, l.Offset), max(b.hi, l.Offset+l.FileSize)
			b.align = max(b.align, min(l.Align, 4096))
		}
	}
	if !named {
		tag := foundBy(s.Type)
		if tag == 0 {
			return fail(fmt.Sprintf("code may refer to sections of type 0x%x", s.Type))
		}
		at, ok := p.tag(tag)
		if !ok || at != s.Addr {
			return fail(fmt.Sprintf("dynamic tag 0x%x does not point to it", tag))
		}
		if size, ok := p.tag(elf.DtRelaSize); s.Type == elf.ShtRela && (!ok || size != s.Size) {
			return fail("the relocations in it are not those of the dynamic tags")
		}
	}
	for i := range p.Sections {
		o := &p.Sections[i]
		if o.InFile() == 0 && o.Flags&elf.ShfAlloc != 0 && o.Addr > b.addr && o.Addr-b.addr < b.hi-b.lo {
			return fail("the empty section " + string(o.Name) + " lies inside")
		}
		if o.InFile() == 0 || o.Offset >= b.hi || b.lo >= o.Offset+o.Size {
			if o.InFile() > 0 && o.Flags&elf.ShfAlloc != 0 && o.Addr-b.addr < b.hi-b.lo {
				return fail("section " + string(o.Name) + " has an address inside it, and its bytes elsewhere")
			}
			continue
		}
		if o.Offset < b.lo || o.Offset+o.Size > b.hi {
			return fail("section " + string(o.Name) + " lies partly in its segment")
		}
		if o.Flags&elf.ShfAlloc != 0 && o.Addr-b.addr != o.Offset-b.lo {
			return fail("section " + string(o.Name) + " in its segment has another address")
		}
	}
	if b.align&(b.align-1) != 0 {
		return fail("the alignment of its segment is not a power of two")
	}
	return b, nil
}

// blockAt returns the block that moves the byte at an address.
func (p *planner) blockAt(addr uint64) *block {
	for i := range p.blocks {
		if b := &p.blocks[i]; addr >= b.addr && addr-b.addr < b.hi-b.lo {
			return b
		}
	}
	return nil
}

// blockOf returns the block with the file range of a section or segment.
func (p *planner) blockOf(off, size uint64) *block {
	for i := range p.blocks {
		if b := &p.blocks[i]; off >= b.lo && off < b.hi && off+size <= b.hi {
			return b
		}
	}
	return nil
}
