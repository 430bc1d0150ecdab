package object

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// outCOFFSection is a section to write.
type outCOFFSection struct {
	coffSectionHeader
	title   []byte
	number  uint32 // in the output, from 1
	content content.Content
	parts   []content.Part // more content, by offset in the section
	relocs  []byte         // as in the input, coffRelocSize each
	nameRef int
	removed bool
	virtual bool // without bytes in the file
}

// errorf returns an error that names the section. The format follows its name.
func (s *outCOFFSection) errorf(format string, args ...any) error {
	return fmt.Errorf("section %d %q"+format, append([]any{s.number, clip(s.title)}, args...)...)
}

// outCOFFSymbol is a symbol to write.
type outCOFFSymbol struct {
	coffSymbol
	in        *outCOFFSection // nil if not defined in a section
	associate *outCOFFSection // the section with which a COMDAT section is kept or removed
	weakOf    *outCOFFSymbol
	index     uint32 // record number in the output
	nameRef   int
	removed   bool
}

type coffRewriter struct {
	f        *File
	in       content.Content
	edits    Edits
	image    *Image // nil for objects
	bigObj   bool
	sections []*outCOFFSection
	symbols  []*outCOFFSymbol
	byRecord []*outCOFFSymbol // by record number in the input, nil for auxiliary records
	strings  *StringTable

	maxSize, maxNames uint64 // limits of the output and of the names in it, in bytes
}

func rewriteCOFF(in content.Content, e Edits, out content.Sink) error {
	f, err := Parse(in.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	r := &coffRewriter{
		f: f, in: in, edits: e, strings: newCOFFStringTable(),
		maxSize: min(maxOutput(len(f.data), e.Add), maxCOFFSize), maxNames: maxNames(len(f.data)),
	}
	for _, step := range []func() error{r.readImage, r.readSections, r.readSymbols, r.remove, r.rename, r.add, r.number, r.renumberTables} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.finish(out)
}

// finish writes the output, in which all sections and symbols have their numbers.
func (r *coffRewriter) finish(out content.Sink) error {
	if err := r.buildStrings(); err != nil {
		return err
	}
	return r.write(out)
}

func (r *coffRewriter) readSections() error {
	size := uint64(len(r.f.data))
	var total uint64 // bytes of relocations
	for i := range r.f.Sections {
		s := &outCOFFSection{coffSectionHeader: *r.f.Sections[i].coff, title: r.f.Sections[i].Name, number: uint32(i + 1)}
		data, err := r.f.Data(i)
		if err != nil {
			return err
		}
		if len(data) > 0 {
			s.content = r.in.Slice(int64(s.RawOffset), int64(len(data)))
		}
		n, at := uint64(s.Relocs), uint64(s.RelocsAt)
		if s.Characteristics&scnRelocOverflow != 0 && n == 0xffff {
			if at > size || size-at < coffRelocSize {
				return s.errorf(": relocations at byte 0x%x pass the end of the file (%d bytes)", at, size)
			}
			if n = uint64(binary.LittleEndian.Uint32(r.f.data[at:])); n == 0 {
				return s.errorf(" at byte 0x%x: a count of 0 relocations, expected 1 or more", at)
			}
			n, at = n-1, at+coffRelocSize
		}
		if n > 0 && (at > size || n > (size-at)/coffRelocSize) {
			return s.errorf(": %d relocations at byte 0x%x pass the end of the file (%d bytes)", n, at, size)
		}
		if n > 0 {
			s.relocs = r.f.data[at : at+n*coffRelocSize]
		}
		if total += n * coffRelocSize; total > size {
			return s.errorf(": relocations at byte 0x%x overlap those of other sections", at)
		}
		s.Characteristics &^= scnRelocOverflow
		r.sections = append(r.sections, s)
	}
	return nil
}

func (r *coffRewriter) readSymbols() error {
	f := r.f
	if !f.coff.hasSymbols {
		return nil
	}
	r.byRecord = make([]*outCOFFSymbol, f.coff.symbols)
	for i := uint32(0); i < f.coff.symbols; {
		cs, err := f.coffSymbolAt(i)
		if err != nil {
			return err
		}
		s := &outCOFFSymbol{coffSymbol: cs, index: i}
		if cs.section > 0 {
			s.in = r.sections[cs.section-1]
		}
		if cs.sectionDefinition() && cs.aux[14] == comdatAssociative && r.image == nil {
			n := int32(binary.LittleEndian.Uint16(cs.aux[12:]))
			if f.coff.bigObj {
				n |= int32(binary.LittleEndian.Uint16(cs.aux[16:])) << 16
			} else {
				n = int32(int16(n))
			}
			if n <= 0 || int(n) > len(r.sections) {
				return fmt.Errorf("symbol %d %q: associated with section %d, the file has %d", i, clip(cs.name), n, len(r.sections))
			}
			s.associate = r.sections[n-1]
		}
		r.byRecord[i] = s
		r.symbols = append(r.symbols, s)
		i += 1 + uint32(cs.auxs)
	}
	for _, s := range r.symbols {
		if s.weakExternal() {
			var err error
			if s.weakOf, err = r.record(binary.LittleEndian.Uint32(s.aux)); err != nil {
				return fmt.Errorf("symbol %d %q: weak alias: %w", s.index, clip(s.name), err)
			}
		}
	}
	return nil
}

// record returns the symbol at record n of the input.
func (r *coffRewriter) record(n uint32) (*outCOFFSymbol, error) {
	if uint64(n) >= uint64(len(r.byRecord)) || r.byRecord[n] == nil {
		return nil, fmt.Errorf("record %d is not a symbol", n)
	}
	return r.byRecord[n], nil
}

// remove removes the chosen sections, the symbols in them, and the sections
// that are associated with removed ones.
func (r *coffRewriter) remove() error {
	if r.edits.Remove == nil {
		return nil
	}
	followers := map[*outCOFFSection][]*outCOFFSection{}
	for _, s := range r.symbols {
		if s.associate != nil && s.in != nil {
			followers[s.associate] = append(followers[s.associate], s.in)
		}
	}
	var gone []*outCOFFSection
	for _, s := range r.sections {
		if r.edits.Remove(s.title) {
			gone = append(gone, s)
		}
	}
	for len(gone) > 0 {
		s := gone[len(gone)-1]
		if gone = gone[:len(gone)-1]; !s.removed {
			s.removed = true
			gone = append(gone, followers[s]...)
		}
	}
	for _, s := range r.symbols {
		s.removed = s.in != nil && s.in.removed
	}
	r.sections = slices.DeleteFunc(r.sections, func(s *outCOFFSection) bool { return s.removed })
	r.symbols = slices.DeleteFunc(r.symbols, func(s *outCOFFSymbol) bool { return s.removed })
	return nil
}

func (r *coffRewriter) rename() error {
	for _, s := range r.symbols {
		if to, ok := r.edits.RenameSymbol[string(s.name)]; ok {
			s.name = []byte(to)
		}
	}
	for _, s := range r.sections {
		if to, ok := r.edits.RenameSection[string(s.title)]; ok {
			s.title = []byte(to)
		}
	}
	return nil
}

func (r *coffRewriter) add() error {
	for i := range r.edits.Add {
		a := &r.edits.Add[i]
		if a.Content.Len() > 1<<32-1 {
			return fmt.Errorf("section %q: %d bytes do not fit a COFF object", clip([]byte(a.Name)), a.Content.Len())
		}
		s := &outCOFFSection{title: []byte(a.Name), content: a.Content}
		s.RawSize, s.Characteristics = uint32(a.Content.Len()), a.Characteristics
		if s.Characteristics&(scnMemExecute|scnMemRead|scnMemWrite) != 0 {
			s.VirtualSize = s.RawSize
			if n := len(r.sections); n > 0 {
				s.VirtualAddress = r.sections[n-1].VirtualAddress + r.sections[n-1].VirtualSize
			}
			if p := r.image; p != nil {
				s.VirtualAddress = uint32(alignUp(uint64(s.VirtualAddress), p.sectAlign, 0))
				s.RawSize = uint32(alignUp(uint64(s.RawSize), p.FileAlign, 0))
			}
		}
		r.sections = append(r.sections, s)
	}
	return nil
}

// number numbers sections and symbols and chooses the form of the file.
func (r *coffRewriter) number() error {
	r.bigObj = len(r.sections) > coffMaxSections
	if r.bigObj && r.image != nil {
		return fmt.Errorf("%d sections do not fit a PE image", len(r.sections))
	}
	for i, s := range r.sections {
		s.number = uint32(i + 1)
	}
	var at uint64
	for _, s := range r.symbols {
		if name := s.fileName(); len(name) > 0 {
			// The number of records for a file name depends on their size.
			n := (uint64(len(name)) + r.symbolSize() - 1) / r.symbolSize()
			if n > 255 {
				return fmt.Errorf("symbol %q: a file name of %d bytes does not fit", clip(s.name), len(name))
			}
			s.auxs = byte(n)
		}
		s.index = uint32(at)
		if at += 1 + uint64(s.auxs); at > 1<<32-1 {
			return fmt.Errorf("the symbol table passes %d records", uint32(1<<32-1))
		}
	}
	return nil
}

func (r *coffRewriter) symbolSize() uint64 { return pick(r.bigObj, coffBigSymbolSize, coffSymbolSize) }

// fileName returns the name in the auxiliary records of a file symbol.
func (s *outCOFFSymbol) fileName() []byte {
	if s.class != symClassFile {
		return nil
	}
	n := len(s.aux)
	for n > 0 && s.aux[n-1] == 0 {
		n--
	}
	return s.aux[:n]
}

// isSymbolTable reports whether the content of a section is record numbers of symbols.
func isSymbolTable(section []byte) bool {
	switch string(section) {
	case ".gljmp$y", ".giats$y", ".gfids$y", ".gehcont$y":
		return true
	}
	return false
}

// renumberTables updates tables of symbol numbers (control flow guard) and the
// checksums of them in section symbols.
func (r *coffRewriter) renumberTables() error {
	if r.image != nil {
		return nil
	}
	le := binary.LittleEndian
	definitions := map[*outCOFFSection]*outCOFFSymbol{}
	for _, s := range r.symbols {
		if s.class == symClassStatic && s.auxs == 1 && s.value == 0 && isSymbolTable(s.name) {
			definitions[s.in] = s
		}
	}
	var total uint64
	for _, s := range r.sections {
		if !isSymbolTable(s.title) || s.content.Len() == 0 {
			continue
		}
		if total += uint64(s.content.Len()); total > uint64(len(r.f.data)) {
			return s.errorf(": its contents overlap those of other sections")
		}
		def := definitions[s]
		if def == nil {
			return s.errorf(": it has no symbol of its own")
		}
		b := slices.Clone(s.content.Mapped(guard.Inside))
		for at := 0; at+4 <= len(b); at += 4 {
			sym, err := r.record(le.Uint32(b[at:]))
			if err == nil && sym.removed {
				err = fmt.Errorf("symbol %q is in a removed section", clip(sym.name))
			}
			if err != nil {
				return s.errorf(" at byte 0x%x: %w", uint64(s.RawOffset)+uint64(at), err)
			}
			le.PutUint32(b[at:], sym.index)
		}
		s.content = content.Memory(b)
		def.aux = slices.Clone(def.aux)
		le.PutUint32(def.aux[8:], ^crc32.Update(^uint32(0), crc32.IEEETable, b))
	}
	return nil
}

func (r *coffRewriter) buildStrings() error {
	for _, s := range r.sections {
		if len(s.title) > coffNameSize {
			// Added first, so that their offsets fit in the digits of a section header.
			s.nameRef = r.strings.addFirst(s.title)
		}
	}
	for _, s := range r.symbols {
		if len(s.name) > coffNameSize {
			s.nameRef = r.strings.Add(s.name)
		}
	}
	if r.strings.total > r.maxNames {
		return fmt.Errorf("string table: its names overlap: %d bytes of names in a file of %d bytes", r.strings.total, len(r.f.data))
	}
	return r.strings.Finish()
}

func (r *coffRewriter) write(out content.Sink) error {
	headerSize := pick(r.bigObj, bigObjHeaderSize, coffHeaderSize) + coffSectionSize*uint64(len(r.sections))
	fileAlign := uint64(1)
	if p := r.image; p != nil {
		headerSize += uint64(len(p.dos)) + uint64(len(p.optional))
		fileAlign = p.FileAlign
	}
	headerSize = alignUp(headerSize, fileAlign, 0)
	symbolsAt, relocs, err := r.layout(headerSize, fileAlign)
	if err != nil {
		return err
	}
	if r.image != nil {
		r.updateImage(headerSize)
		if err := r.relocateDebug(); err != nil {
			return err
		}
	}
	var pieces []content.Part
	var filled uint64
	for i, s := range r.sections {
		if s.RawOffset > 0 {
			at := uint64(s.RawOffset)
			pieces = appendParts(append(pieces, partAt(at, s.content)), at, s.parts)
			if fill := uint64(s.RawSize) - uint64(s.content.Len()); fill > 0 && s.parts == nil && s.Characteristics&scnCode != 0 {
				if filled += fill; filled > uint64(len(r.f.data)) {
					return s.errorf(": %d bytes of code without contents in a file of %d bytes", fill, len(r.f.data))
				}
				// Code is padded with int3, as in LLVM.
				pieces = append(pieces, partAt(at+uint64(s.content.Len()), content.Memory(slices.Repeat([]byte{0xcc}, int(fill)))))
			}
		}
		pieces = append(pieces, partAt(uint64(s.RelocsAt), content.Memory(relocs[i])))
	}
	symbols, err := r.encodeSymbols()
	if err != nil {
		return err
	}
	names := r.strings.Bytes()
	end := symbolsAt + uint64(len(symbols)) + uint64(len(names))
	if r.image != nil && len(symbols) == 0 && len(names) <= 4 {
		names, end, symbolsAt = nil, symbolsAt, 0
	}
	pieces = append(pieces, partAt(symbolsAt, content.Memory(symbols)), partAt(symbolsAt+uint64(len(symbols)), content.Memory(names)))
	headers := r.encodeHeaders(uint32(symbolsAt), uint32(uint64(len(symbols))/r.symbolSize()))
	pieces = append([]content.Part{{Content: content.Memory(headers)}}, pieces...)
	return content.WriteParts(out, pieces, int64(alignUp(end, fileAlign, 0)))
}

// layout assigns offsets after the headers to sections and relocations. It
// returns the offset of the symbol table and the relocations of each section.
func (r *coffRewriter) layout(at, fileAlign uint64) (symbolsAt uint64, relocs [][]byte, err error) {
	relocs = make([][]byte, len(r.sections))
	for i, s := range r.sections {
		if s.RawOffset = 0; s.RawSize > 0 && !s.virtual {
			s.RawOffset = uint32(at)
			at += uint64(s.RawSize)
		}
		if relocs[i], err = r.encodeRelocs(s); err != nil {
			return 0, nil, err
		}
		if s.RelocsAt = 0; len(relocs[i]) > 0 {
			s.RelocsAt = uint32(at)
			at += uint64(len(relocs[i]))
		}
		if at = alignUp(at, fileAlign, 0); at > r.maxSize {
			return 0, nil, s.errorf(" ends past byte 0x%x, the most for this file", r.maxSize)
		}
	}
	return at, relocs, nil
}

// encodeRelocs returns the relocations of s with the new numbers of symbols, and
// a leading record with their count if it does not fit in the header.
func (r *coffRewriter) encodeRelocs(s *outCOFFSection) ([]byte, error) {
	le := binary.LittleEndian
	n := len(s.relocs) / coffRelocSize
	s.Relocs = uint16(min(n, 0xffff))
	var b []byte
	if n >= 0xffff {
		s.Characteristics |= scnRelocOverflow
		b = le.AppendUint32(b, uint32(n+1))
		b = append(b, 0, 0, 0, 0, 0, 0)
	}
	b = append(b, s.relocs...)
	for at := len(b) - len(s.relocs); at < len(b); at += coffRelocSize {
		sym, err := r.record(le.Uint32(b[at+4:]))
		if err != nil {
			return nil, s.errorf(": relocation: %w", err)
		}
		if sym.removed {
			return nil, fmt.Errorf("section %q cannot be removed: section %d %q has a relocation against symbol %q in it",
				clip(sym.in.title), s.number, clip(s.title), clip(sym.name))
		}
		le.PutUint32(b[at+4:], sym.index)
	}
	return b, nil
}

func (r *coffRewriter) encodeSymbols() ([]byte, error) {
	le := binary.LittleEndian
	var b []byte
	for _, s := range r.symbols {
		b = appendCOFFName(b, s.name, r.strings, s.nameRef)
		b = le.AppendUint32(b, s.value)
		section := uint32(s.section)
		if s.in != nil {
			section = s.in.number
		}
		if r.bigObj {
			b = le.AppendUint32(b, section)
		} else {
			b = le.AppendUint16(b, uint16(section))
		}
		b = le.AppendUint16(b, s.typ)
		b = append(b, s.class, s.auxs)
		start := len(b)
		b = append(b, make([]byte, uint64(s.auxs)*r.symbolSize())...)
		if err := r.encodeAux(s, b[start:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// encodeAux sets the auxiliary records of s.
func (r *coffRewriter) encodeAux(s *outCOFFSymbol, b []byte) error {
	le := binary.LittleEndian
	if s.class == symClassFile {
		copy(b, s.fileName())
		return nil
	}
	from, to := r.f.coff.symbolSize(), r.symbolSize()
	for i := range uint64(s.auxs) {
		copy(b[i*to:], s.aux[i*from:i*from+coffSymbolSize])
	}
	if s.in != nil && s.auxs == 1 && s.class == symClassStatic {
		number := s.in.number
		if s.associate != nil {
			if s.associate.removed {
				return fmt.Errorf("symbol %q is associated with removed section %q", clip(s.name), clip(s.associate.title))
			}
			number = s.associate.number
		}
		le.PutUint16(b[12:], uint16(number))
		le.PutUint16(b[16:], uint16(number>>16))
	}
	if s.weakOf != nil {
		if s.weakOf.removed {
			return fmt.Errorf("symbol %q is an alias of %q, which is in a removed section", clip(s.name), clip(s.weakOf.name))
		}
		le.PutUint32(b, s.weakOf.index)
	}
	return nil
}

func (r *coffRewriter) encodeHeaders(symbolsAt, symbols uint32) []byte {
	le, h := binary.LittleEndian, r.f.coff
	var b, optional []byte
	if r.image != nil {
		b, optional = append(b, r.image.dos...), r.image.optional
	}
	if r.bigObj {
		b = append(b, 0, 0, 0xff, 0xff, 2, 0)
		b = le.AppendUint16(b, h.machine)
		b = le.AppendUint32(b, h.timestamp)
		b = append(b, bigObjUUID...)
		b = append(b, make([]byte, 16)...)
		b = le.AppendUint32(b, uint32(len(r.sections)))
		b = le.AppendUint32(b, symbolsAt)
		b = le.AppendUint32(b, symbols)
	} else {
		b = le.AppendUint16(b, h.machine)
		b = le.AppendUint16(b, uint16(len(r.sections)))
		b = le.AppendUint32(b, h.timestamp)
		b = le.AppendUint32(b, symbolsAt)
		b = le.AppendUint32(b, symbols)
		b = le.AppendUint16(b, uint16(len(optional)))
		b = le.AppendUint16(b, h.characteristics)
		b = append(b, optional...)
	}
	for _, s := range r.sections {
		s.Name = coffName(s.title, r.strings, s.nameRef)
		b = s.append(b)
	}
	return b
}

// appendCOFFName appends the name field of a symbol: the name, or zeros and the offset of a
// long one, string ref, in the string table.
func appendCOFFName(b, name []byte, names *StringTable, ref int) []byte {
	if len(name) > coffNameSize {
		return binary.LittleEndian.AppendUint32(append(b, 0, 0, 0, 0), names.Offset(ref))
	}
	var short [coffNameSize]byte
	copy(short[:], name)
	return append(b, short[:]...)
}

// coffName returns the name field of a section. Long names are string ref.
func coffName(title []byte, names *StringTable, ref int) (name [coffNameSize]byte) {
	if len(title) > coffNameSize {
		return encodeCOFFName(names.Offset(ref))
	}
	copy(name[:], title)
	return name
}

// encodeCOFFName returns the name field of a section whose name is at off in
// the string table: "/" and decimal digits, or "//" and six digits of base 64.
func encodeCOFFName(off uint32) (name [coffNameSize]byte) {
	if off < coffSectionNameLimit {
		copy(name[:], fmt.Sprintf("/%d", off))
		return name
	}
	name[0], name[1] = '/', '/'
	for i := coffNameSize - 1; i >= 2; i-- {
		name[i] = base64Digits[off%64]
		off /= 64
	}
	return name
}
