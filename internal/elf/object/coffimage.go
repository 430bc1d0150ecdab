package object

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Image is a PE image, with the part before its sections that objects do not have.
type Image struct {
	*File
	Wide      bool   // PE32+, for 64 bits
	Base      uint64 // address for which the image is linked, if it is wide
	FileAlign uint64 // of sections in the file

	dos       []byte // the DOS header and its program, and the PE signature
	optional  []byte // the optional header with its data directories, a copy
	dirs      []byte // the data directories, in optional
	sectAlign uint64 // of addresses
}

// Offsets into the optional header, directories, and offsets into section headers.
const (
	peInitializedData = 8
	peImageBase       = 24 // of 64 bits
	peSectionAlign    = 32
	peFileAlign       = 36
	peSizeOfImage     = 56
	peSizeOfHeaders   = 60
	peCheckSum        = 64

	peCertificates    = 4
	peDebug           = 6
	peDirectorySize   = 8
	peDebugRecordSize = 28

	peRawSize   = 16
	peRawOffset = 20
)

// Image reads the headers of a PE image.
func (f *File) Image() (*Image, error) {
	le, data := binary.LittleEndian, f.data
	at := uint64(le.Uint32(data[0x3c:])) + 4 + coffHeaderSize // openCOFF has checked that it is inside the file
	b := data[at:]
	p := &Image{File: f, dos: data[:at-coffHeaderSize]}
	var size int
	switch {
	case len(b) >= 96 && le.Uint16(b) == 0x10b:
		size = 96
	case len(b) >= 112 && le.Uint16(b) == 0x20b:
		size, p.Wide, p.Base = 112, true, le.Uint64(b[peImageBase:])
	default:
		return nil, fmt.Errorf("optional header at byte 0x%x: expected one of PE32 or PE32+", at)
	}
	n := uint64(le.Uint32(b[size-4:]))
	if n > uint64(len(b)-size)/peDirectorySize {
		return nil, fmt.Errorf("optional header at byte 0x%x: %d data directories pass the end of the file (%d bytes)", at, n, len(data))
	}
	p.optional = slices.Clone(b[:uint64(size)+n*peDirectorySize])
	p.dirs = p.optional[size:]
	p.sectAlign, p.FileAlign = uint64(le.Uint32(b[peSectionAlign:])), uint64(le.Uint32(b[peFileAlign:]))
	return p, nil
}

// directory returns the address and size of data directory i in memory.
func (p *Image) directory(i int) (rva, size uint64) {
	if b := p.dirs; len(b) >= (i+1)*peDirectorySize {
		b = b[i*peDirectorySize:]
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	}
	return 0, 0
}

// readImage reads the headers of a PE image.
func (r *coffRewriter) readImage() (err error) {
	if r.f.Format != PE {
		return nil
	}
	if at := binary.LittleEndian.Uint32(r.f.data[0x3c:]); at < 64 {
		return fmt.Errorf("dos header at byte 0x3c: the PE header at 0x%x overlaps it", at)
	}
	r.image, err = r.f.Image()
	return err
}

// updateImage updates the optional header after changes of sections. It removes
// the checksum and the signatures, which are no longer valid (LLVM 22 keeps an
// entry for the signatures, which then refers to other data).
func (r *coffRewriter) updateImage(headers uint64) {
	p, le := r.image, binary.LittleEndian
	var initialized uint32
	for _, s := range r.sections {
		if s.Characteristics&scnInitializedData != 0 {
			initialized += s.RawSize
		}
	}
	le.PutUint32(p.optional[peInitializedData:], initialized)
	le.PutUint32(p.optional[peSizeOfHeaders:], uint32(headers))
	le.PutUint32(p.optional[peCheckSum:], 0)
	if n := len(r.sections); n > 0 {
		last := r.sections[n-1]
		end := uint64(last.VirtualAddress + last.VirtualSize)
		le.PutUint32(p.optional[peSizeOfImage:], uint32(alignUp(end, p.sectAlign, 0)))
	}
	if len(p.dirs) >= (peCertificates+1)*peDirectorySize {
		clear(p.dirs[peCertificates*peDirectorySize:][:peDirectorySize])
	}
}

// holds reports whether the address rva is in the part of s that is stored in
// the file.
func (s *outCOFFSection) holds(rva uint64) bool {
	at := uint64(s.VirtualAddress)
	return rva >= at && rva < at+uint64(s.RawSize)
}

// relocateDebug corrects the file offsets in the debug directory, after the
// layout of the sections.
func (r *coffRewriter) relocateDebug() error {
	le := binary.LittleEndian
	rva, size := r.image.directory(peDebug)
	if size == 0 {
		return nil
	}
	at := slices.IndexFunc(r.sections, func(s *outCOFFSection) bool { return s.holds(rva) })
	if at < 0 {
		return fmt.Errorf("the debug directory at address 0x%x is in no section", rva)
	}
	s := r.sections[at]
	off := rva - uint64(s.VirtualAddress)
	if size%peDebugRecordSize != 0 || off+size > uint64(s.content.Len()) {
		return s.errorf(": %d bytes of debug directory at address 0x%x pass its end", size, rva)
	}
	if size/peDebugRecordSize*uint64(len(r.sections)) > maxSegmentWork {
		return fmt.Errorf("%w: %d debug records with %d sections", ErrUnwritable, size/peDebugRecordSize, len(r.sections))
	}
	b := slices.Clone(s.content.Mapped(guard.Inside))
	for entry := b[off : off+size]; len(entry) > 0; entry = entry[peDebugRecordSize:] {
		if le.Uint32(entry[24:]) == 0 {
			continue
		}
		to := uint64(le.Uint32(entry[20:]))
		i := slices.IndexFunc(r.sections, func(s *outCOFFSection) bool { return s.holds(to) })
		if i < 0 {
			return fmt.Errorf("debug data at address 0x%x is in no section", to)
		}
		le.PutUint32(entry[24:], r.sections[i].RawOffset+uint32(to)-r.sections[i].VirtualAddress)
	}
	s.content = content.Memory(b)
	return nil
}

// raw returns the range of a section in the file.
func (s *Section) raw() (start, end uint64) {
	return uint64(s.coff.RawOffset), uint64(s.coff.RawOffset) + uint64(s.coff.RawSize)
}

// Alone checks that nothing else uses the bytes of a section, so that Shorten can remove some of them.
func (p *Image) Alone(section int) error {
	s := &p.Sections[section]
	lo, hi := s.raw()
	if end := uint64(len(p.dos) + coffHeaderSize + len(p.optional)); p.coff.sectionsAt < end {
		return fmt.Errorf("PE file: the section headers at byte 0x%x overlap the headers up to 0x%x", p.coff.sectionsAt, end)
	}
	if headers := p.coff.sectionsAt + uint64(len(p.Sections))*coffSectionSize; lo < headers || hi > uint64(len(p.data)) || lo%p.FileAlign != 0 || hi%p.FileAlign != 0 {
		return fmt.Errorf("section %s: found it at bytes 0x%x to 0x%x of the file, expected multiples of 0x%x from 0x%x to 0x%x", s.Name, lo, hi, p.FileAlign, headers, len(p.data))
	}
	for i := range p.Sections {
		if start, end := p.Sections[i].raw(); i != section && start < end && start < hi && lo < end {
			return fmt.Errorf("section %s overlaps section %s at byte 0x%x", s.Name, p.Sections[i].Name, max(start, lo))
		}
	}
	return nil
}

// Shorten returns the image in, in which a section has parts, used bytes in total, as its content. What
// follows in the file moves forward; addresses do not change. The signatures are removed, because they
// are no longer valid; signed reports whether the image has some.
func (p *Image) Shorten(in content.Content, section int, parts []content.Part, used uint64) (file []content.Part, size int64, signed bool, err error) {
	lo, hi := p.Sections[section].raw()
	cut := hi - alignUp(lo+used, p.FileAlign, 0)
	end, last := uint64(len(p.data)), hi
	for i := range p.Sections {
		if start, stop := p.Sections[i].raw(); start < stop {
			last = max(last, stop)
		}
	}
	at, n := p.directory(peCertificates)
	if n > 0 && (at < last || at+n > end || end-(at+n) >= 8) {
		return nil, 0, false, fmt.Errorf("PE file: the signature at bytes 0x%x to 0x%x is not at the end of the file (%d bytes); remove it first", at, at+n, end)
	}
	if n > 0 {
		end = at
	}
	head := p.shortHeaders(section, cut)
	file = []content.Part{{Content: content.Memory(head)}}
	for _, part := range parts {
		file = append(file, partAt(lo+uint64(part.Offset), part.Content))
	}
	if debug, records := p.movedDebug(section, hi, cut); debug < lo {
		copy(head[debug:], records)
	} else {
		file = append(file, partAt(hi-cut, in.Slice(int64(hi), int64(debug-hi))), partAt(debug-cut, content.Memory(records)))
		hi = debug + uint64(len(records))
	}
	file = append(file, partAt(hi-cut, in.Slice(int64(hi), int64(end-hi))))
	file = slices.DeleteFunc(file, func(part content.Part) bool { return part.Content.Len() == 0 })
	return file, int64(end - cut), n > 0, nil
}

// shortHeaders returns what is before a section after the removal of bytes at its end. The
// checksum, which only drivers require, becomes 0: not stated.
func (p *Image) shortHeaders(section int, cut uint64) []byte {
	le := binary.LittleEndian
	lo, hi := p.Sections[section].raw()
	head := slices.Clone(p.data[:lo])
	optional := head[len(p.dos)+coffHeaderSize:]
	move := func(field []byte) {
		if old := uint64(le.Uint32(field)); old >= hi {
			le.PutUint32(field, uint32(old-cut))
		}
	}
	move(head[len(p.dos)+8:]) // the symbol table
	headers := head[p.coff.sectionsAt:]
	for i := range p.Sections {
		move(headers[i*coffSectionSize+peRawOffset:])
	}
	size := headers[section*coffSectionSize+peRawSize:]
	le.PutUint32(size, le.Uint32(size)-uint32(cut))
	data := optional[peInitializedData:]
	le.PutUint32(data, le.Uint32(data)-min(le.Uint32(data), uint32(cut)))
	clear(optional[peCheckSum:][:4])
	if at := peCertificates * peDirectorySize; len(p.dirs) >= at+peDirectorySize {
		clear(optional[len(p.optional)-len(p.dirs)+at:][:peDirectorySize])
	}
	return head
}

// movedDebug returns the place of the debug directory in the file, and its records with the new
// offsets of their data after the removal of bytes before hi. Without a debug directory outside of the
// section, there are none.
func (p *Image) movedDebug(section int, hi, cut uint64) (at uint64, records []byte) {
	addr, size := p.directory(peDebug)
	for i := range p.Sections {
		start, end := p.Sections[i].raw()
		first := p.Sections[i].Addr
		if i == section || size == 0 || addr < first || addr-first > end-start || size > end-start-(addr-first) || end > uint64(len(p.data)) {
			continue
		}
		at = start + addr - first
		records = slices.Clone(p.data[at : at+size])
		for b := records; len(b) >= peDebugRecordSize; b = b[peDebugRecordSize:] {
			if old := uint64(binary.LittleEndian.Uint32(b[24:])); old >= hi {
				binary.LittleEndian.PutUint32(b[24:], uint32(old-cut))
			}
		}
		return at, records
	}
	return 0, nil
}
