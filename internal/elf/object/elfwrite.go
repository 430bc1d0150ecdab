package object

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// The layout is that of llvm-objcopy: first the program segments, then the
// sections outside segments in the order of their offsets in the input, then new
// sections and the section headers. Symbol and string tables are rebuilt.

type sectionRole uint8

const (
	rolePlain   sectionRole = iota
	roleFixed               // other sections, whose link and info are not section numbers to update
	roleNew                 // from Edits.Add
	roleStrings             // a string table in use
	roleSymtab
	roleShndx
	roleReloc    // not allocated
	roleDynReloc // allocated: part of the memory image
	roleGroup
)

// outSection is a section to write.
type outSection struct {
	Section
	role    sectionRole
	index   uint32 // in the output
	place   uint64 // offset in the input; the largest number for new sections
	content content.Content
	parts   []content.Part // more content, by offset in the section
	linked  *outSection    // sh_link
	applies *outSection    // sh_info of relocation sections
	segment *outSegment
	nameRef int
	strings *StringTable

	hasSymbol bool // a symbol was defined in it
	removed   bool

	members   []*outSection // of a group
	groupFlag uint32
	signature uint32 // its symbol, by number in the input
}

// errorf returns an error that names the section. The format follows its name.
func (s *outSection) errorf(format string, args ...any) error {
	return fmt.Errorf("section %d %q"+format, append([]any{s.index, clip(s.Name)}, args...)...)
}

type outSymbol struct {
	elfSymbol
	in      *outSection // nil if not defined in a section
	nameRef int
	index   uint32 // in the output
	removed bool
}

type outSegment struct {
	elf.Segment
	place  uint64 // offset in the input
	index  int
	parent *outSegment
}

type elfRewriter struct {
	f        *File
	h        *elfHeader
	in       content.Content
	edits    Edits
	sections []*outSection
	segments []*outSegment
	ehdr     *outSegment
	phdrs    *outSegment

	names, symtab, shndx *outSection
	symbols              []outSymbol
	order                []*outSymbol // symbols in output order
	renumbered           bool
	shoff                uint64

	maxSize, maxNames uint64 // limits of the output and of the names in it, in bytes
}

func rewriteELF(in content.Content, e Edits, out content.Sink) error {
	f, err := Parse(in.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	r := &elfRewriter{f: f, h: f.elf, in: in, edits: e, maxSize: maxOutput(len(f.data), e.Add), maxNames: maxNames(len(f.data))}
	if f.elf.shstrndx == 0 || len(f.Sections) == 0 {
		return fmt.Errorf("%w: the file has no section header table", ErrUnwritable)
	}
	for _, step := range []func() error{
		r.readSections, r.readSymbols, r.linkSections, r.readSegments,
		r.remove, r.orderSymbols, r.add, r.rename, r.dropEmptySymtab, r.indexTable, r.renumber,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.finish(out)
}

// finish writes the output, in which all sections and symbols have their order.
func (r *elfRewriter) finish(out content.Sink) error {
	if err := r.buildStrings(); err != nil {
		return err
	}
	size, err := r.layout()
	if err != nil {
		return err
	}
	return r.write(size, out)
}

func (r *elfRewriter) readSections() error {
	f := r.f
	var tables uint64 // bytes of groups and relocations, which are read one entry at a time
	for i := 1; i < len(f.Sections); i++ {
		s := &outSection{Section: f.Sections[i], index: uint32(i), place: f.Sections[i].Offset}
		s.EntSize &= 0xffffffff
		r.sections = append(r.sections, s)
		switch alloc := s.Flags&elf.ShfAlloc != 0; {
		case s.Type == elf.ShtSymtab:
			if r.symtab != nil {
				return fmt.Errorf("sections %d and %d are both symbol tables", r.symtab.index, i)
			}
			s.role, r.symtab = roleSymtab, s
			continue
		case s.Type == elf.ShtSymtabShndx:
			if r.shndx != nil {
				return fmt.Errorf("sections %d and %d both hold extended section indices", r.shndx.index, i)
			}
			s.role, r.shndx = roleShndx, s
			continue
		case s.Type == elf.ShtGroup:
			s.role = roleGroup
		case (s.Type == elf.ShtRel || s.Type == elf.ShtRela) && alloc:
			s.role = roleDynReloc
		case s.Type == elf.ShtRel || s.Type == elf.ShtRela:
			s.role = roleReloc
			if _, err := f.elfTable(i, r.relocSize(s)); err != nil {
				return err
			}
		case s.Type == elf.ShtCrel && !alloc:
			s.role = roleReloc
		case s.Type == elf.ShtStrtab && !alloc, s.Flags&elf.ShfCompressed != 0 && !fixedType(s.Type):
			s.role = roleFixed
		}
		data, err := f.Data(i)
		if err != nil {
			return err
		}
		if len(data) > 0 {
			s.content = r.in.Slice(int64(s.Offset), int64(len(data)))
		}
		if s.role == roleGroup || s.role == roleReloc {
			if tables += s.Size; tables > uint64(len(f.data)) {
				return s.errorf(": sections of relocations and groups overlap")
			}
		}
	}
	r.names = r.section(r.h.shstrndx)
	if r.names == nil || r.names.role != roleFixed || r.names.Type != elf.ShtStrtab {
		return fmt.Errorf("section %d, which should hold the section names, is allocated to memory or not a string table", r.h.shstrndx)
	}
	r.names.role, r.names.strings = roleStrings, NewStringTable()
	return nil
}

// fixedType reports whether llvm-objcopy treats sections of this type specially,
// compressed or not.
func fixedType(typ uint32) bool {
	switch typ {
	case elf.ShtStrtab, elf.ShtHash, elf.ShtGNUHash, elf.ShtDynsym, elf.ShtDynamic, elf.ShtNobits:
		return true
	}
	return false
}

// section returns section n of the input, or nil if the input has no such section.
func (r *elfRewriter) section(n uint32) *outSection {
	if n == 0 || uint64(n) >= uint64(len(r.f.Sections)) {
		return nil
	}
	return r.sections[n-1]
}

func (r *elfRewriter) relocSize(s *outSection) uint64 {
	if s.Type == elf.ShtRela {
		return r.h.relaSize()
	}
	return r.h.relSize()
}

func (r *elfRewriter) readSymbols() error {
	if r.symtab == nil {
		return nil
	}
	t, err := r.f.elfSymtab(elf.ShtSymtab)
	if err != nil {
		return err
	}
	n := uint64(len(t.entries)) / r.h.symSize()
	if n == 0 {
		return fmt.Errorf("section %d, the symbol table, has no null symbol", r.symtab.index)
	}
	strtab := r.section(r.symtab.Link)
	if strtab.Flags&elf.ShfAlloc != 0 {
		return fmt.Errorf("section %d, which should hold the symbol names, is allocated to memory", r.symtab.Link)
	}
	r.symtab.linked = strtab
	if strtab.strings == nil {
		strtab.role, strtab.strings = roleStrings, NewStringTable()
	}
	r.symbols = make([]outSymbol, n)
	for i := range r.symbols {
		s := &r.symbols[i]
		if err = r.f.symbol(&t, i, &s.elfSymbol); err != nil {
			return err
		}
		switch {
		case !s.reserved():
			if s.in = r.section(s.section); s.in != nil {
				s.in.hasSymbol = true
			}
		case !keepsReserved(r.h.machine, s.shndx):
			return fmt.Errorf("symbol %d %q: unknown reserved section index 0x%x", i, clip(s.name), s.shndx)
		}
		s.index = uint32(i)
	}
	return nil
}

// keepsReserved reports whether a reserved section index has a meaning that a
// rewrite keeps: the absolute and common ones, and those of some machines.
func keepsReserved(machine uint16, shndx uint16) bool {
	switch {
	case shndx == elf.ShnAbs, shndx == elf.ShnCommon:
		return true
	case machine == elf.MachineAMDGPU:
		return shndx == 0xff00
	case machine == elf.MachineMIPS:
		return shndx == 0xff00 || shndx == 0xff03 || shndx == 0xff04
	case machine == elf.MachineHexagon:
		return shndx >= 0xff00 && shndx <= 0xff04
	}
	return false
}

// linkSections resolves sh_link and sh_info to sections.
func (r *elfRewriter) linkSections() error {
	for _, s := range r.sections {
		linked := r.section(s.Link)
		if s.Link != 0 && linked == nil && s.role != roleFixed && s.role != roleStrings {
			return s.errorf(": linked to section %d, which does not exist", s.Link)
		}
		switch s.role {
		case rolePlain:
			s.linked = linked
		case roleShndx:
			if r.symtab == nil || linked != r.symtab {
				return s.errorf(" holds section indices for section %d, which is not the symbol table", s.Link)
			}
			s.linked = linked
		case roleReloc, roleDynReloc:
			if s.role == roleReloc && linked != nil && linked != r.symtab {
				return s.errorf(": linked to section %d, which is not a symbol table", s.Link)
			}
			s.linked = linked
			if s.Info != 0 {
				if s.applies = r.section(s.Info); s.applies == nil {
					return s.errorf(": applies to section %d, which does not exist", s.Info)
				}
			}
		case roleGroup:
			if err := r.readGroup(s, linked); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *elfRewriter) readGroup(s, linked *outSection) error {
	words := s.content.Mapped(guard.Inside)
	if len(words) == 0 || len(words)%4 != 0 {
		return s.errorf(": a group of %d bytes, expected a multiple of 4", len(words))
	}
	if linked != nil && linked != r.symtab {
		return s.errorf(": linked to section %d, which is not a symbol table", s.Link)
	}
	if s.linked = linked; linked != nil {
		if s.signature = s.Info; uint64(s.Info) >= uint64(len(r.symbols)) {
			return s.errorf(": its signature is symbol %d of %d", s.Info, len(r.symbols))
		}
	}
	s.groupFlag = r.h.order.Uint32(words)
	for at := 4; at < len(words); at += 4 {
		m := r.section(r.h.order.Uint32(words[at:]))
		if m == nil {
			return s.errorf(" at byte 0x%x: group member %d is not a section", s.Offset+uint64(at), r.h.order.Uint32(words[at:]))
		}
		s.members = append(s.members, m)
	}
	return nil
}

// maxSegmentWork limits the number of comparisons of segments with sections.
const maxSegmentWork = 1 << 28

func (r *elfRewriter) readSegments() error {
	h := r.h
	n, size := uint64(h.phnum), uint64(len(r.f.data))
	if h.phnum == 0xffff {
		return fmt.Errorf("%w: more than 65534 program headers", ErrUnwritable)
	}
	if n > 0 && (uint64(h.phentsize) != h.phdrSize() || h.phoff > size || n > (size-h.phoff)/h.phdrSize()) {
		return fmt.Errorf("program header table at byte 0x%x: %d headers of %d bytes, expected %d bytes each inside the file (%d bytes)",
			h.phoff, n, h.phentsize, h.phdrSize(), size)
	}
	if n*(n+uint64(len(r.sections))) > maxSegmentWork {
		return fmt.Errorf("%w: %d program headers with %d sections", ErrUnwritable, n, len(r.sections))
	}
	for i := range n {
		seg := &outSegment{Segment: h.segment(r.f.data[h.phoff+i*h.phdrSize():])}
		seg.index, seg.place = int(i), seg.Offset
		if seg.Offset > size || seg.FileSize > size-seg.Offset {
			return fmt.Errorf("program header %d of %d: offset 0x%x + size 0x%x passes the end of the file (%d bytes)",
				i, n, seg.Offset, seg.FileSize, size)
		}
		r.segments = append(r.segments, seg)
		for _, s := range r.sections {
			if seg.holds(s) && (s.segment == nil || s.segment.Offset > seg.Offset) {
				s.segment = seg
			}
		}
	}
	r.ehdr = &outSegment{index: int(n), Segment: elf.Segment{FileSize: h.ehdrSize()}}
	r.phdrs = &outSegment{
		index: int(n) + 1, place: h.phoff,
		Segment: elf.Segment{Offset: h.phoff, Addr: h.phoff, FileSize: uint64(h.phentsize) * n, Align: h.addrSize()},
	}
	for _, child := range append(slices.Clone(r.segments), r.ehdr, r.phdrs) {
		for _, p := range r.segments {
			if p != child && p.place <= child.place && p.place+p.FileSize > child.place && before(p, child) < 0 &&
				(child.parent == nil || before(p, child.parent) < 0) {
				child.parent = p
			}
		}
	}
	return nil
}

// before orders segments by their offsets in the input.
func before(a, b *outSegment) int {
	return cmp.Or(cmp.Compare(a.place, b.place), a.index-b.index)
}

// holds reports whether s is completely inside the segment. An empty section
// counts as one byte, so that one at a boundary belongs to the second segment.
func (seg *outSegment) holds(s *outSection) bool {
	size := max(s.Size, 1)
	if s.Type == elf.ShtNobits {
		if s.Flags&elf.ShfAlloc == 0 || (s.Flags&elf.ShfTLS != 0) != (seg.Type == elf.PtTLS) {
			return false
		}
		return seg.Addr <= s.Addr && size <= seg.MemSize && s.Addr-seg.Addr <= seg.MemSize-size
	}
	return seg.Offset <= s.place && size <= seg.FileSize && s.place-seg.Offset <= seg.FileSize-size
}

func (r *elfRewriter) remove() error {
	return r.removeSections(func(s *outSection) bool { return r.edits.Remove != nil && r.edits.Remove(s.Name) })
}

// removeSections removes the sections that match selects, their symbols and
// relocations, and all references to them. A reference that cannot be removed
// is an error.
func (r *elfRewriter) removeSections(match func(*outSection) bool) error {
	chosen := make(map[*outSection]bool)
	for _, s := range r.sections {
		if match(s) {
			chosen[s] = true
		}
	}
	var kept []*outSection
	for _, s := range r.sections {
		s.removed = chosen[s]
		switch {
		case s.removed:
		case s.role == roleReloc || s.role == roleDynReloc:
			s.removed = chosen[s.applies]
		case s.role == roleGroup: // a group without members is always removed
			s.removed = !slices.ContainsFunc(s.members, func(m *outSection) bool { return !chosen[m] })
		}
		if !s.removed {
			kept = append(kept, s)
		} else if s.segment != nil {
			return s.errorf(" cannot be removed: a program header covers it")
		}
	}
	for _, s := range r.sections {
		if s.removed && s.role == roleGroup {
			for _, m := range s.members {
				m.Flags &^= elf.ShfGroup
			}
		}
	}
	if len(kept) == len(r.sections) {
		return nil
	}
	if r.names.removed {
		return r.names.errorf(" cannot be removed: it holds the section names")
	}
	if err := r.unlink(kept); err != nil {
		return err
	}
	r.sections = kept
	return nil
}

// unlink removes references to removed sections from the kept ones.
func (r *elfRewriter) unlink(kept []*outSection) error {
	inUse := func(gone, by *outSection) error {
		return gone.errorf(" cannot be removed: section %d %q refers to it", by.index, clip(by.Name))
	}
	if r.symtab != nil && r.symtab.removed {
		r.symtab = nil
	}
	if r.shndx != nil && r.shndx.removed {
		r.shndx = nil
	}
	if r.symtab != nil {
		for i := range r.symbols {
			s := &r.symbols[i]
			if i > 0 && s.in != nil && s.in.removed {
				s.removed, r.renumbered = true, true
			}
		}
	}
	for _, s := range kept {
		if s.linked != nil && s.linked.removed && s.role != roleShndx {
			if s.role != rolePlain || s.linked.role != roleSymtab {
				return inUse(s.linked, s)
			}
			s.linked = nil
		}
		switch {
		case s.role == roleGroup:
			s.members = slices.DeleteFunc(s.members, func(m *outSection) bool { return m.removed })
			if s.linked != nil && r.symbols[s.signature].removed {
				return inUse(r.symbols[s.signature].in, s)
			}
		case s.role == roleReloc && r.renumbered:
			if _, err := r.encodeRelocs(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// relocSymbol returns the symbol number of the relocation at b.
func (r *elfRewriter) relocSymbol(b []byte) uint32 {
	h := r.h
	switch {
	case !h.is64:
		return h.order.Uint32(b[4:]) >> 8
	case h.machine == elf.MachineMIPS && !r.f.BigEndian:
		return h.order.Uint32(b[8:])
	}
	return uint32(h.order.Uint64(b[8:]) >> 32)
}

func (r *elfRewriter) setRelocSymbol(b []byte, sym uint32) {
	h := r.h
	switch {
	case !h.is64:
		h.order.PutUint32(b[4:], sym<<8|h.order.Uint32(b[4:])&0xff)
	case h.machine == elf.MachineMIPS && !r.f.BigEndian:
		h.order.PutUint32(b[8:], sym)
	default:
		h.order.PutUint64(b[8:], uint64(sym)<<32|h.order.Uint64(b[8:])&0xffffffff)
	}
}

// orderSymbols renames symbols, puts the local ones first, appends new ones and numbers them.
func (r *elfRewriter) orderSymbols() error {
	if r.symtab == nil {
		return nil
	}
	r.order = make([]*outSymbol, 0, len(r.symbols))
	for _, local := range []bool{true, false} {
		for i := range r.symbols {
			s := &r.symbols[i]
			if s.removed || (s.binding() == elf.BindLocal) != local {
				continue
			}
			if i > 0 && len(r.edits.RenameSymbol) > 0 {
				if to, ok := r.edits.RenameSymbol[string(s.name)]; ok {
					s.name = []byte(to)
				}
			}
			s.index = uint32(len(r.order))
			r.renumbered = r.renumbered || int(s.index) != i
			r.order = append(r.order, s)
		}
	}
	for _, name := range r.edits.Undefined {
		r.order = append(r.order, &outSymbol{elfSymbol: elfSymbol{name: []byte(name), info: elf.BindGlobal << 4}, index: uint32(len(r.order))})
	}
	return nil
}

func (r *elfRewriter) add() error {
	for i := range r.edits.Add {
		a := &r.edits.Add[i]
		s := r.newSection(roleNew, a.Name, elf.SectionHeader{Type: a.Type, Flags: a.Flags, Align: a.Align, Size: uint64(a.Content.Len())})
		if s.content = a.Content; !r.h.is64 && s.Size > math.MaxUint32 {
			return fmt.Errorf("section %q: %d bytes do not fit a 32-bit object", clip(s.Name), s.Size)
		}
	}
	return nil
}

func (r *elfRewriter) rename() error {
	if len(r.edits.RenameSection) == 0 {
		return nil
	}
	renamed := map[*outSection]bool{}
	for _, s := range r.sections {
		if to, ok := r.edits.RenameSection[string(s.Name)]; ok {
			s.Name, renamed[s] = []byte(to), true
		}
	}
	for _, s := range r.sections {
		if s.role == roleReloc && !renamed[s] && renamed[s.applies] {
			prefix := map[uint32]string{elf.ShtRel: ".rel", elf.ShtRela: ".rela", elf.ShtCrel: ".crel"}[s.Type]
			s.Name = append([]byte(prefix), s.applies.Name...)
		}
	}
	return nil
}

// dropEmptySymtab removes a symbol table without symbols from a linked file.
func (r *elfRewriter) dropEmptySymtab() error {
	linked := r.h.typ == elf.EtExec || r.h.typ == elf.EtDyn
	for _, s := range r.sections {
		linked = linked && s.role != roleReloc
	}
	if !linked || r.symtab == nil || len(r.order) != 1 {
		return nil
	}
	symtab, strtab := r.symtab, r.symtab.linked
	return r.removeSections(func(s *outSection) bool {
		return s == symtab || s == strtab && s != r.names
	})
}

// indexTable adds or removes the table of section indices that do not fit in
// symbols.
func (r *elfRewriter) indexTable() error {
	large := false
	for i := elf.ShnLoReserve - 1; i < len(r.sections); i++ {
		large = large || r.sections[i].hasSymbol
	}
	switch {
	case large && r.shndx == nil && r.symtab != nil:
		r.shndx = r.newSection(roleShndx, ".symtab_shndx", elf.SectionHeader{Type: elf.ShtSymtabShndx, Align: 4, EntSize: 4})
		r.shndx.linked = r.symtab
	case !large && r.shndx != nil:
		table := r.shndx
		return r.removeSections(func(s *outSection) bool { return s == table })
	}
	return nil
}

// buildStrings builds the string tables and sets the sizes that depend on
// symbols.
func (r *elfRewriter) buildStrings() error {
	for _, s := range r.sections {
		s.nameRef = r.names.strings.Add(s.Name)
		switch s.role {
		case roleReloc:
			if s.Type != elf.ShtCrel {
				s.EntSize, s.Align = r.relocSize(s), r.h.addrSize()
			}
		case roleGroup:
			s.Size = 4 + 4*uint64(len(s.members))
		}
	}
	if r.symtab != nil {
		t := r.symtab
		t.EntSize, t.Align = r.h.symSize(), r.h.addrSize()
		t.Size = t.EntSize * uint64(len(r.order))
		if r.shndx != nil {
			r.shndx.Size = 4 * uint64(len(r.order))
		}
		for _, s := range r.order {
			s.nameRef = t.linked.strings.Add(s.name)
		}
	}
	for _, s := range r.sections {
		if s.role != roleStrings {
			continue
		}
		if s.strings.total > r.maxNames {
			return s.errorf(": its names overlap: %d bytes of names in a file of %d bytes", s.strings.total, len(r.f.data))
		}
		if err := s.strings.Finish(); err != nil {
			return err
		}
		s.content = content.Memory(s.strings.Bytes())
		s.Size = uint64(s.content.Len())
	}
	return nil
}

// alignUp rounds v up to a multiple of align plus skew, as LLVM does: with
// wrap-around for a skew larger than v.
func alignUp(v, align, skew uint64) uint64 {
	align = max(align, 1)
	skew %= align
	v -= skew
	if rest := v % align; rest != 0 {
		v += align - rest
	}
	return v + skew
}

// layout assigns all offsets and returns the size of the output.
func (r *elfRewriter) layout() (uint64, error) {
	limit := r.maxSize
	if !r.h.is64 {
		limit = min(limit, math.MaxUint32)
	}
	var at uint64
	place := func(align, skew, size uint64, what string, index int) (uint64, error) {
		off := alignUp(at, align, skew)
		if off < at || off > limit || size > limit-off {
			return 0, fmt.Errorf("%s %d: alignment 0x%x and size 0x%x at byte 0x%x make a file of over %d bytes",
				what, index, align, size, at, limit)
		}
		return off, nil
	}
	ordered := append(slices.Clone(r.segments), r.ehdr, r.phdrs)
	slices.SortStableFunc(ordered, before)
	for _, seg := range ordered {
		var err error
		if seg.parent != nil {
			seg.Offset = seg.parent.Offset + seg.place - seg.parent.place
		} else if seg.Offset, err = place(seg.Align, seg.Addr, seg.FileSize, "segment", seg.index); err != nil {
			return 0, err
		}
		at = max(at, seg.Offset+seg.FileSize)
	}
	for i, s := range r.sections {
		s.index = uint32(i + 1)
		if s.segment != nil {
			s.Offset = s.segment.Offset + s.place - s.segment.place
		}
	}
	for _, s := range r.loose() {
		var size uint64
		if s.Type != elf.ShtNobits {
			size = s.Size
		}
		var err error
		if s.Offset, err = place(s.Align, 0, size, "section", int(s.index)); err != nil {
			return 0, err
		}
		at = s.Offset + size
	}
	off, err := place(r.h.addrSize(), 0, r.h.shdrSize()*uint64(len(r.sections)+1), "section header table of", len(r.sections)+1)
	r.shoff = off
	return off + r.h.shdrSize()*uint64(len(r.sections)+1), err
}

// loose returns the sections outside segments in the order of the layout.
func (r *elfRewriter) loose() []*outSection {
	var loose []*outSection
	for _, s := range r.sections {
		if s.segment == nil {
			loose = append(loose, s)
		}
	}
	slices.SortStableFunc(loose, func(a, b *outSection) int { return cmp.Compare(a.place, b.place) })
	return loose
}

// write writes the output to out.
func (r *elfRewriter) write(size uint64, out content.Sink) error {
	pieces := r.segmentPieces()
	pieces = overlay(pieces, partAt(0, content.Memory(r.encodeHeader())))
	pieces = overlay(pieces, partAt(r.phdrs.Offset, content.Memory(r.encodeSegments())))
	for _, s := range r.loose() {
		if s.Type == elf.ShtNobits {
			continue
		}
		switch s.role {
		case roleSymtab:
			s.content = content.Memory(r.encodeSymbols())
		case roleShndx:
			s.content = content.Memory(r.encodeIndices())
		case roleGroup:
			s.content = content.Memory(r.encodeGroup(s))
		}
		pieces = appendParts(append(pieces, partAt(s.Offset, s.content)), s.Offset, s.parts)
	}
	pieces = append(pieces, partAt(r.shoff, content.Memory(r.encodeSections())))
	return content.WriteParts(out, pieces, int64(size))
}

// segmentPieces returns the bytes of the segments at their new offsets.
// Segments that share bytes in the input share them in the output.
func (r *elfRewriter) segmentPieces() []content.Part {
	segments := slices.Clone(r.segments)
	slices.SortStableFunc(segments, func(a, b *outSegment) int { return cmp.Compare(a.Offset, b.Offset) })
	var pieces []content.Part
	var at uint64
	for _, s := range segments {
		from := max(s.Offset, at)
		if end := s.Offset + s.FileSize; end > from {
			pieces = append(pieces, partAt(from, r.in.Slice(int64(s.place+from-s.Offset), int64(end-from))))
			at = end
		}
	}
	return pieces
}

// overlay adds p to pieces, in place of the parts that it overlaps, and returns
// them in order.
func overlay(pieces []content.Part, p content.Part) []content.Part {
	end := p.Offset + p.Content.Len()
	if end == p.Offset {
		return pieces
	}
	var out []content.Part
	for _, q := range pieces {
		qEnd := q.Offset + q.Content.Len()
		if q.Offset < p.Offset {
			out = append(out, content.Part{Offset: q.Offset, Content: q.Content.Slice(0, min(qEnd, p.Offset)-q.Offset)})
		}
		if qEnd > end {
			from := max(q.Offset, end)
			out = append(out, content.Part{Offset: from, Content: q.Content.Slice(from-q.Offset, qEnd-from)})
		}
	}
	out = append(out, p)
	slices.SortFunc(out, func(a, b content.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// renumber updates relocations to the new numbers of their symbols.
func (r *elfRewriter) renumber() error {
	for _, s := range r.sections {
		if s.role != roleReloc || !r.renumbered {
			continue
		}
		b, err := r.encodeRelocs(s)
		if err != nil {
			return err
		}
		s.content, s.Size = content.Memory(b), uint64(len(b))
	}
	return nil
}

// encodeRelocs returns the relocations in s with the new numbers of their symbols. A relocation
// against a symbol that was removed with its section is an error.
func (r *elfRewriter) encodeRelocs(s *outSection) ([]byte, error) {
	if s.Type == elf.ShtCrel {
		relocs, ok := decodeCREL(s.content.Mapped(guard.Inside), r.h.is64)
		if !ok {
			return nil, s.errorf(": its compact relocations end early")
		}
		for i := range relocs {
			var err error
			if relocs[i].symbol, err = r.newNumber(s, relocs[i].symbol); err != nil {
				return nil, err
			}
		}
		return encodeCREL(relocs, r.h.is64), nil
	}
	b, step := slices.Clone(s.content.Mapped(guard.Inside)), int(r.relocSize(s))
	for at := 0; at < len(b); at += step {
		n, err := r.newNumber(s, r.relocSymbol(b[at:]))
		if err != nil {
			return nil, err
		}
		r.setRelocSymbol(b[at:], n)
	}
	return b, nil
}

// newNumber returns the number in the output of symbol n of the input, to which a relocation in s refers.
func (r *elfRewriter) newNumber(s *outSection, n uint32) (uint32, error) {
	switch {
	case n == 0:
		return 0, nil
	case r.symtab == nil || uint64(n) >= uint64(len(r.symbols)):
		return 0, s.errorf(" at byte 0x%x: a relocation against symbol %d, which does not exist", s.Offset, n)
	case r.symbols[n].removed:
		sym := &r.symbols[n]
		return 0, sym.in.errorf(" cannot be removed: section %d %q has a relocation against symbol %q in it", s.index, clip(s.Name), clip(sym.name))
	}
	return r.symbols[n].index, nil
}
