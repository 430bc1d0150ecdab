// Package bundle reads and writes plain (uncompressed) offload bundles: files
// that hold one code object per target, each under an entry ID such as
// hip-amdgcn-amd-amdhsa--gfx942.
//
// There are two layouts. The binary one starts with a header:
//
//	magic        24 bytes  __CLANG_OFFLOAD_BUNDLE__
//	count         8 bytes  number of entries, little endian as all numbers
//	per entry
//	  offset      8 bytes  where its content starts, counted from the magic
//	  size        8 bytes  length of its content
//	  ID length   8 bytes
//	  ID
//
// with the contents behind it, zero padding before each one up to the alignment.
// Older releases wrote the same layout with shorter triples and called it a
// bundled device binary. The text layout puts every content between two comment
// lines, see [ParseText].
//
// Entry IDs are taken as they are: their meaning is the matter of package target.
package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Magic starts a binary bundle and is part of the marker lines of text bundles.
const Magic = "__CLANG_OFFLOAD_BUNDLE__"

// SectionPrefix starts the names of the sections that hold entries in a bundled
// object file; the entry ID follows.
const SectionPrefix = Magic

const (
	fixedHeader = int64(len(Magic) + 8) // magic and count
	fixedEntry  = int64(3 * 8)          // offset, size and ID length
)

// maxEntries is how many entries a bundle may have: far more than there are
// targets, and few enough for a crafted file not to fill the memory.
const maxEntries = 1 << 16

// Entry is one entry of a bundle that was read.
type Entry struct {
	ID     string // as stored
	At     int64  // where its header, or in text its START line, lies in the data
	Offset int64  // where its content lies in the data, whatever the bundle's own start
	Size   int64  // bytes of content
	EndID  string // the ID in the END line; empty in binary bundles
}

// Content returns the bytes of the entry; data is what the entry was parsed from.
func (e Entry) Content(data []byte) []byte {
	return data[e.Offset : e.Offset+e.Size : e.Offset+e.Size]
}

// Bundle is the header of a binary bundle.
type Bundle struct {
	Start   int64   // where the magic lies in the data
	End     int64   // behind the last byte of the header and of all contents
	Entries []Entry // in the order of the header
}

// Is reports whether data starts with a binary bundle, by the rule LLVM's tools
// go by: the magic and at least one byte more.
func Is(data []byte) bool {
	return len(data) > len(Magic) && string(data[:len(Magic)]) == Magic
}

// Parse reads the header of the binary bundle at the start of data. Bytes behind
// the bundle are ignored.
func Parse(data []byte) (*Bundle, error) { return ParseAt(data, 0) }

// ParseAt reads the header of the binary bundle that starts at data[start]. It
// touches nothing but the header. Every entry of the result lies inside data;
// entries may share bytes, as writers do that store equal contents once.
func ParseAt(data []byte, start int64) (*Bundle, error) {
	return parse(data, start, int64(len(data)))
}

// ErrPrefix says that ParsePrefix needs more bytes.
var ErrPrefix = errors.New("the header of the bundle is longer")

// ParsePrefix reads the header of a binary bundle of which only the first bytes
// are there, as of one that is being decompressed; size is how many bytes the
// whole bundle has. It returns ErrPrefix when the header is not complete.
func ParsePrefix(prefix []byte, size int64) (*Bundle, error) {
	return parse(prefix, 0, max(size, int64(len(prefix))))
}

// parse reads the header at data[start]. data is the beginning of size bytes.
func parse(data []byte, start, size int64) (*Bundle, error) {
	if start < 0 || start > int64(len(data)) || !Is(data[start:]) {
		return nil, fmt.Errorf("no bundle at byte 0x%x: expected the magic %s", start, Magic)
	}
	end := uint64(size)
	have := uint64(len(data))
	pos := start + fixedHeader
	if pos > size {
		return nil, fmt.Errorf("number of entries at byte 0x%x passes %s", start+int64(len(Magic)), pastEnd(size))
	}
	if uint64(pos) > have {
		return nil, ErrPrefix
	}
	count := binary.LittleEndian.Uint64(data[pos-8:])
	if count > (end-uint64(pos))/uint64(fixedEntry) {
		return nil, fmt.Errorf("number of entries at byte 0x%x: headers of %d entries pass %s", pos-8, count, pastEnd(size))
	}
	if count > maxEntries {
		return nil, fmt.Errorf("number of entries at byte 0x%x: %d is more than the %d that a bundle may have", pos-8, count, maxEntries)
	}
	b := &Bundle{Start: start}
	base := uint64(start)
	for i := range count {
		if end-uint64(pos) < uint64(fixedEntry) {
			return nil, fmt.Errorf("entry %d of %d at byte 0x%x: its header passes %s", i+1, count, pos, pastEnd(size))
		}
		if uint64(pos+fixedEntry) > have {
			return nil, ErrPrefix
		}
		offset := binary.LittleEndian.Uint64(data[pos:])
		length := binary.LittleEndian.Uint64(data[pos+8:])
		idLen := binary.LittleEndian.Uint64(data[pos+16:])
		id := pos + fixedEntry
		if idLen > end-uint64(id) {
			return nil, fmt.Errorf("entry %d of %d at byte 0x%x: ID of 0x%x bytes passes %s", i+1, count, pos, idLen, pastEnd(size))
		}
		if offset > end-base || length > end-base-offset {
			return nil, fmt.Errorf("entry %d of %d at byte 0x%x: offset 0x%x + size 0x%x passes %s", i+1, count, pos, offset, length, pastEnd(size))
		}
		if uint64(id)+idLen > have {
			return nil, ErrPrefix
		}
		b.Entries = append(b.Entries, Entry{
			ID:     string(data[id : id+int64(idLen)]),
			At:     pos,
			Offset: start + int64(offset),
			Size:   int64(length),
		})
		pos = id + int64(idLen)
	}
	b.End = pos
	for i, e := range b.Entries {
		// Where an empty entry lies does not matter.
		if e.Offset < pos && e.Size > 0 {
			return nil, fmt.Errorf("entry %d of %d at byte 0x%x: offset 0x%x lies inside the header, which ends at 0x%x", i+1, count, e.At, e.Offset-start, pos-start)
		}
		b.End = max(b.End, e.Offset+e.Size)
	}
	return b, nil
}

// End returns where the binary bundle that data begins with ends.
func End(data []byte) (int64, error) {
	b, err := Parse(data)
	if err != nil {
		return 0, err
	}
	return b.End, nil
}

// pastEnd describes the end of data to somebody whose file may be cut short.
func pastEnd(size int64) string {
	return fmt.Sprintf("the end of the file (%s bytes). Not a whole bundle: was it cut short?", grouped(size))
}

// grouped writes n with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
