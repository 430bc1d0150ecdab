package object

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
)

// peImage is the part of a PE image before its sections that objects do not
// have.
type peImage struct {
	dos       []byte // the DOS header and its program, and the PE signature
	optional  []byte // the optional header with its data directories, a copy
	dirs      []byte // the data directories, in optional
	sectAlign uint64 // of addresses
	fileAlign uint64 // of offsets
}

// Offsets into the optional header, the same for 32 and 64 bits, and directories.
const (
	peInitializedData = 8
	peSectionAlign    = 32
	peFileAlign       = 36
	peSizeOfImage     = 56
	peSizeOfHeaders   = 60
	peCheckSum        = 64

	peCertificates    = 4
	peDebug           = 6
	peDirectorySize   = 8
	peDebugRecordSize = 28
)

// readImage reads the headers of a PE image.
func (r *coffRewriter) readImage() error {
	if !r.f.coff.image {
		return nil
	}
	le, data := binary.LittleEndian, r.f.data
	at := uint64(le.Uint32(data[0x3c:])) + 4 + coffHeaderSize // openCOFF has checked that it is inside the file
	if at < 64+4+coffHeaderSize {
		return fmt.Errorf("dos header at byte 0x3c: the PE header at 0x%x overlaps it", le.Uint32(data[0x3c:]))
	}
	b := data[at:]
	var size int
	switch {
	case len(b) >= 96 && le.Uint16(b) == 0x10b:
		size = 96
	case len(b) >= 112 && le.Uint16(b) == 0x20b:
		size = 112
	default:
		return fmt.Errorf("optional header at byte 0x%x: expected one of PE32 or PE32+", at)
	}
	n := uint64(le.Uint32(b[size-4:]))
	if n > uint64(len(b)-size)/peDirectorySize {
		return fmt.Errorf("optional header at byte 0x%x: %d data directories pass the end of the file (%d bytes)", at, n, len(data))
	}
	p := &peImage{dos: data[:at-coffHeaderSize], optional: slices.Clone(b[:uint64(size)+n*peDirectorySize])}
	p.dirs = p.optional[size:]
	p.sectAlign, p.fileAlign = uint64(le.Uint32(b[peSectionAlign:])), uint64(le.Uint32(b[peFileAlign:]))
	r.image = p
	return nil
}

// directory returns the address and size of data directory i in memory.
func (p *peImage) directory(i int) (rva, size uint64) {
	if b := p.dirs; len(b) >= (i+1)*peDirectorySize {
		b = b[i*peDirectorySize:]
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	}
	return 0, 0
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
	b := slices.Clone(s.content.Bytes())
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
