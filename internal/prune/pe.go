package prune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/object"
)

// Sizes and offsets of PE files. Those of fields are in the optional header of PE32+, or in
// section headers.
const (
	peMagic64       = 0x20b
	peFileHeader    = 24 // with the signature
	peOptional      = 112
	peSectionHeader = 40

	peSymbols     = 12 // from the signature
	peInitialized = 8
	peImageBase   = 24
	peAlign       = 36
	peCheckSum    = 64

	peSignatureDirectory, peDebugDirectory = 4, 6
	peDebugRecord                          = 28

	peRawSize, peRawOffset = 16, 20
)

// peFile is a linked file for Windows. Addresses are relative to the image.
type peFile struct {
	*object.File
	data     []byte
	header   uint64 // offset of the signature before the file header
	optional uint64 // offset of the optional header
	table    uint64 // offset of the section headers
	base     uint64 // address of the image
	align    uint64 // of sections in the file
	code     int    // section of the bundles; -1 for none
	records  int    // section of the wrappers; -1 for none
	other    string // name of a section with device code of another kind
}

// parsePE reads the headers of a PE file.
func parsePE(data []byte) (*peFile, error) {
	f, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	p := &peFile{File: f, data: data, header: uint64(le.Uint32(data[0x3c:]))}
	p.optional = p.header + peFileHeader
	if p.optional+peOptional > uint64(len(data)) || le.Uint16(data[p.optional:]) != peMagic64 {
		return nil, errors.New("PE file: expected a 64-bit one (PE32+)")
	}
	p.table = p.optional + uint64(le.Uint16(data[p.header+20:]))
	p.base, p.align = le.Uint64(data[p.optional+peImageBase:]), uint64(le.Uint32(data[p.optional+peAlign:]))
	if p.align == 0 || p.align&(p.align-1) != 0 || p.align > 1<<16 || p.table < p.optional+peOptional {
		return nil, fmt.Errorf("PE file: found sections aligned to 0x%x bytes and %d bytes of headers, expected a power of two up to 0x10000 and %d bytes or more", p.align, p.table-p.header, peFileHeader+peOptional)
	}
	p.code, p.records = -1, -1
	for i := range f.Sections {
		switch name := string(f.Sections[i].Name); {
		case p.code < 0 && isCut(name, embedding.HIPSection):
			p.code = i
		case p.records < 0 && isCut(name, embedding.HIPWrappers):
			p.records = i
		case isCut(name, embedding.OffloadSection), isCut(name, embedding.CUDASection):
			p.other = name
		}
	}
	return p, nil
}

// isCut reports whether a section has a name, or its first 8 characters, as linkers for Windows
// write it.
func isCut(section, name string) bool {
	return section == name || len(section) == 8 && strings.HasPrefix(name, section)
}

// raw returns the range of a section in the file.
func (p *peFile) raw(i int) (start, end uint64) {
	h := p.data[p.table+uint64(i)*peSectionHeader:]
	start = uint64(binary.LittleEndian.Uint32(h[peRawOffset:]))
	return start, start + uint64(binary.LittleEndian.Uint32(h[peRawSize:]))
}

// directory returns the offset in the file of an entry of the data directories, and its value; 0
// for a missing one.
func (p *peFile) directory(i uint64) (at, start, size uint64) {
	count := uint64(binary.LittleEndian.Uint32(p.data[p.optional+peOptional-4:]))
	at = p.optional + peOptional + 8*i
	if i >= count || at+8 > p.table {
		return 0, 0, 0
	}
	return at, uint64(binary.LittleEndian.Uint32(p.data[at:])), uint64(binary.LittleEndian.Uint32(p.data[at+4:]))
}

// openPE finds the bundles of HIP in a linked file for Windows.
func (w *Work) openPE(ctx context.Context) error {
	w.format = "pe"
	p, err := parsePE(w.in.Bytes())
	if err != nil {
		return unsupported(err)
	}
	if p.code < 0 && p.other != "" {
		return unsupported(fmt.Errorf("section %s of a PE file is not supported; expected bundles in section %s", p.other, embedding.HIPSection[:8]))
	}
	if p.code < 0 {
		return ErrNoDeviceCode
	}
	body, err := p.Data(p.code)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return ErrNoDeviceCode
	}
	if err := p.alone(); err != nil {
		return unsupported(err)
	}
	starts, err := p.bundles()
	if err != nil {
		return unsupported(err)
	}
	s := &p.Sections[p.code]
	units, ends, err := bundlesAt(ctx, string(s.Name), w.in.Slice(int64(s.Offset), int64(len(body))), starts, &w.opt)
	if err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	w.add(&region{units: units})
	w.build = func() (*elfedit.Layout, error) { return p.layout(&w.work, units, ends) }
	return nil
}

// bundles returns the offsets in the section that wrappers point to.
func (p *peFile) bundles() ([]int64, error) {
	s := &p.Sections[p.code]
	var starts []int64
	if p.records >= 0 {
		data, err := p.Data(p.records)
		if err != nil {
			return nil, err
		}
		for _, r := range embedding.Records(data, 0) {
			at := r.Target - p.base - s.Addr
			switch {
			case r.Magic == embedding.MagicKpack:
				return nil, fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", len(starts), s.Name)
			case at >= s.Size:
				return nil, fmt.Errorf("wrapper %d: points to address 0x%x, expected one in section %s (0x%x to 0x%x)", len(starts), r.Target, s.Name, p.base+s.Addr, p.base+s.Addr+s.Size)
			}
			starts = append(starts, int64(at))
		}
	}
	if len(starts) == 0 {
		return nil, fmt.Errorf("section %s: no wrapper in section %s points to it", s.Name, embedding.HIPWrappers[:8])
	}
	return starts, nil
}

// alone checks that nothing else uses the bytes of the section with code.
func (p *peFile) alone() error {
	name := p.Sections[p.code].Name
	lo, hi := p.raw(p.code)
	if headers := p.table + uint64(len(p.Sections))*peSectionHeader; lo < headers || hi > uint64(len(p.data)) || lo%p.align != 0 || hi%p.align != 0 {
		return fmt.Errorf("section %s: found it at bytes 0x%x to 0x%x of the file, expected multiples of 0x%x from 0x%x to 0x%x", name, lo, hi, p.align, headers, len(p.data))
	}
	for i := range p.Sections {
		if start, end := p.raw(i); i != p.code && start < end && start < hi && lo < end {
			return fmt.Errorf("section %s overlaps section %s at byte 0x%x", name, p.Sections[i].Name, max(start, lo))
		}
	}
	return nil
}

// layout returns the file with smaller bundles at the same addresses. The bytes after the last one
// leave the file, but not the address space; what follows moves forward.
func (p *peFile) layout(w *work, units []*unit, ends []int64) (*elfedit.Layout, error) {
	lo, hi := p.raw(p.code)
	layout := &elfedit.Layout{}
	used := uint64(0)
	for i, u := range units {
		if w.opt.DryRun && u.compressed {
			u.size = min(u.size, ends[i]-u.at) // an upper bound
		}
		if u.size > ends[i]-u.at {
			return nil, fmt.Errorf("%s: %d bytes do not fit into the %d bytes of the section up to the next bundle; a PE file cannot grow", u.where(), u.size, ends[i]-u.at)
		}
		layout.Parts = u.appendTo(layout.Parts, int64(lo)+u.at)
		used = uint64(u.at + u.size)
	}
	cut := hi - roundUp(lo+used, p.align)
	end := uint64(len(p.data))
	signature, at, size := p.directory(peSignatureDirectory)
	last := hi
	for i := range p.Sections {
		if start, stop := p.raw(i); start < stop {
			last = max(last, stop)
		}
	}
	if size > 0 && (at < last || at+size > end || end-(at+size) >= 8) {
		return nil, fmt.Errorf("PE file: the signature at bytes 0x%x to 0x%x is not at the end of the file (%d bytes); remove it first", at, at+size, end)
	}
	if size > 0 {
		end = at
		layout.Warnings = append(layout.Warnings, "the signature is removed, because it is no longer valid; sign the file again")
	}
	head := slices.Clone(p.data[:lo])
	p.patch(head, cut)
	if signature > 0 {
		clear(head[signature : signature+8])
	}
	after := w.in.Slice(int64(hi), int64(end-hi))
	if debug, record := p.debug(hi, cut); record != nil && debug < lo {
		copy(head[debug:], record)
	} else if record != nil {
		tail := debug - hi
		layout.Parts = append(layout.Parts,
			content.Part{Offset: int64(hi - cut), Content: after.Slice(0, int64(tail))},
			content.Part{Offset: int64(debug - cut), Content: content.Memory(record)})
		hi, after = debug+uint64(len(record)), after.Slice(int64(tail)+int64(len(record)), after.Len()-int64(tail)-int64(len(record)))
	}
	layout.Parts = slices.Insert(layout.Parts, 0, content.Part{Content: content.Memory(head)})
	layout.Parts = append(layout.Parts, content.Part{Offset: int64(hi - cut), Content: after})
	layout.Parts = slices.DeleteFunc(layout.Parts, func(part content.Part) bool { return part.Content.Len() == 0 })
	layout.Size = int64(end - cut)
	return layout, nil
}

// patch updates the headers after the removal of bytes at the end of the section with code. The
// checksum, which only drivers require, becomes 0: not stated.
func (p *peFile) patch(head []byte, cut uint64) {
	le := binary.LittleEndian
	_, hi := p.raw(p.code)
	move := func(at uint64) {
		if old := uint64(le.Uint32(head[at:])); old >= hi {
			le.PutUint32(head[at:], uint32(old-cut))
		}
	}
	move(p.header + peSymbols)
	for i := range p.Sections {
		move(p.table + uint64(i)*peSectionHeader + peRawOffset)
	}
	size := p.table + uint64(p.code)*peSectionHeader + peRawSize
	le.PutUint32(head[size:], le.Uint32(head[size:])-uint32(cut))
	data := head[p.optional+peInitialized:]
	le.PutUint32(data, le.Uint32(data)-min(le.Uint32(data), uint32(cut)))
	clear(head[p.optional+peCheckSum:][:4])
}

// debug returns the place of the debug directory in the file, and its records with the new
// offsets of their data; or nil.
func (p *peFile) debug(hi, cut uint64) (at uint64, records []byte) {
	_, addr, size := p.directory(peDebugDirectory)
	for i := range p.Sections {
		start, end := p.raw(i)
		first := p.Sections[i].Addr
		if i == p.code || size == 0 || addr < first || addr-first > end-start || size > end-start-(addr-first) || end > uint64(len(p.data)) {
			continue
		}
		at = start + addr - first
		records = slices.Clone(p.data[at : at+size])
		for b := records; len(b) >= peDebugRecord; b = b[peDebugRecord:] {
			if old := uint64(binary.LittleEndian.Uint32(b[24:])); old >= hi {
				binary.LittleEndian.PutUint32(b[24:], uint32(old-cut))
			}
		}
		return at, records
	}
	return 0, nil
}
