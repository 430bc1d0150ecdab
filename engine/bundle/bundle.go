// Package bundle reads and writes plain (uncompressed) offload bundles: files
// that hold one code object per target, each under an entry ID such as
// hip-amdgcn-amd-amdhsa--gfx942.
//
// There are two layouts. The binary one starts with a header:
//
//	magic        24 bytes  __CLANG_OFFLOAD_BUNDLE__
//	count         8 bytes  number of entries, little endian as all numbers
//	per entry
//	  offset      8 bytes  offset of its content from the magic
//	  size        8 bytes  length of its content
//	  ID length   8 bytes
//	  ID
//
// followed by the contents, each preceded by zero padding up to the alignment.
// Older releases wrote the same layout with shorter triples and called it a
// bundled device binary. The text layout stores each content between two comment
// lines, see [ParseText].
//
// Entry IDs are not interpreted; package target does that.
package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Magic is the first bytes of a binary bundle and is part of the marker lines
// of text bundles.
const Magic = "__CLANG_OFFLOAD_BUNDLE__"

// SectionPrefix is the prefix of the names of sections that hold entries in a
// bundled object file. The entry ID follows it.
const SectionPrefix = Magic

const (
	fixedHeader = int64(len(Magic) + 8) // magic and count
	fixedEntry  = int64(3 * 8)          // offset, size and ID length
)

// maxEntries is the largest number of entries in a bundle: far more than there
// are targets, but few enough that a crafted file cannot exhaust memory.
const maxEntries = 1 << 16

// Entry is an entry of a parsed bundle.
type Entry struct {
	ID     string // as stored
	At     int64  // offset of its header, or in text of its START line, in the data
	Offset int64  // offset of its content in the data, not in the bundle
	Size   int64  // bytes of content
	EndID  string // the ID in the END line; empty in binary bundles
}

// Content returns the bytes of the entry; data must be the bytes that the entry
// was parsed from.
func (e Entry) Content(data []byte) []byte {
	return data[e.Offset : e.Offset+e.Size : e.Offset+e.Size]
}

// Bundle is the header of a binary bundle.
type Bundle struct {
	Start   int64   // offset of the magic in the data
	End     int64   // offset after the last byte of the header and of all contents
	Entries []Entry // in the order of the header
}

// Is reports whether data starts with a binary bundle, by the rule of LLVM's
// tools: the magic and at least one more byte.
func Is(data []byte) bool {
	return len(data) > len(Magic) && string(data[:len(Magic)]) == Magic
}

// Parse reads the header of the binary bundle at the start of data. Bytes after
// the bundle are ignored.
func Parse(data []byte) (*Bundle, error) { return ParseAt(data, 0) }

// ParseAt reads the header of the binary bundle that starts at data[start]. It
// reads only the header. Every entry of the result lies inside data; entries
// may share bytes if the writer stored equal contents once.
func ParseAt(data []byte, start int64) (*Bundle, error) {
	b := new(Bundle)
	if err := parse(b, data, start, int64(len(data)), true); err != nil {
		return nil, err
	}
	return b, nil
}

// errPrefix reports that a header requires more bytes.
var errPrefix = errors.New("the header of the bundle is longer")

const (
	// headerPrefix is the number of bytes that ReadHeader requests first.
	headerPrefix = 4 << 10
	// maxHeader limits the size of a header, in bytes: it takes memory.
	maxHeader = 16 << 20
)

// ReadHeader reads the header of a binary bundle that is not in memory, for
// example of one that is compressed. size is the size of the whole bundle in
// bytes. prefix returns its first n bytes, or all if it has fewer. The result is
// nil if they are not the beginning of a binary bundle.
func ReadHeader(size int64, prefix func(n int64) ([]byte, error)) (*Bundle, error) {
	for n := int64(headerPrefix); ; n *= 8 {
		data, err := prefix(n)
		if err != nil || !Is(data) {
			return nil, err
		}
		b := new(Bundle)
		switch err := parse(b, data, 0, max(size, int64(len(data))), true); {
		case err == nil:
			return b, nil
		case !errors.Is(err, errPrefix):
			return nil, err
		case n >= maxHeader:
			return nil, fmt.Errorf("the header of the uncompressed bundle has more than %d bytes", maxHeader)
		}
	}
}

// usualEntries is the number of entries for which memory is allocated at once.
const usualEntries = 64

// parse reads the header at data[start] into b. data is a prefix of size bytes.
// Without keep, it sets no entries.
func parse(b *Bundle, data []byte, start, size int64, keep bool) error {
	if start < 0 || start > int64(len(data)) || !Is(data[start:]) {
		return fmt.Errorf("no bundle at byte 0x%x: expected the magic %s", start, Magic)
	}
	end := uint64(size)
	have := uint64(len(data))
	pos := start + fixedHeader
	if pos > size {
		return fmt.Errorf("number of entries at byte 0x%x passes %s", start+int64(len(Magic)), pastEnd(size))
	}
	if uint64(pos) > have {
		return errPrefix
	}
	count := binary.LittleEndian.Uint64(data[pos-8:])
	if count > (end-uint64(pos))/uint64(fixedEntry) {
		return fmt.Errorf("number of entries at byte 0x%x: headers of %d entries pass %s", pos-8, count, pastEnd(size))
	}
	if count > maxEntries {
		return fmt.Errorf("number of entries at byte 0x%x: %d is more than the %d that a bundle may have", pos-8, count, maxEntries)
	}
	b.Start = start
	if keep && count > 0 {
		b.Entries = make([]Entry, 0, min(count, usualEntries))
	}
	base := uint64(start)
	low, last := int64(math.MaxInt64), int64(0) // of contents
	for i := range count {
		if end-uint64(pos) < uint64(fixedEntry) {
			return fmt.Errorf("entry %d of %d at byte 0x%x: its header passes %s", i+1, count, pos, pastEnd(size))
		}
		if uint64(pos+fixedEntry) > have {
			return errPrefix
		}
		offset := binary.LittleEndian.Uint64(data[pos:])
		length := binary.LittleEndian.Uint64(data[pos+8:])
		idLen := binary.LittleEndian.Uint64(data[pos+16:])
		id := pos + fixedEntry
		if idLen > end-uint64(id) {
			return fmt.Errorf("entry %d of %d at byte 0x%x: ID of 0x%x bytes passes %s", i+1, count, pos, idLen, pastEnd(size))
		}
		if offset > end-base || length > end-base-offset {
			return fmt.Errorf("entry %d of %d at byte 0x%x: offset 0x%x + size 0x%x passes %s", i+1, count, pos, offset, length, pastEnd(size))
		}
		if uint64(id)+idLen > have {
			return errPrefix
		}
		e := Entry{At: pos, Offset: start + int64(offset), Size: int64(length)}
		if e.Size > 0 { // the offset of an empty entry does not matter
			low = min(low, e.Offset)
		}
		last = max(last, e.Offset+e.Size)
		pos = id + int64(idLen)
		if keep {
			e.ID = string(data[id:pos])
			b.Entries = append(b.Entries, e)
		}
	}
	if low < pos {
		if !keep {
			return parse(b, data, start, size, true) // for the error
		}
		for i, e := range b.Entries {
			if e.Offset < pos && e.Size > 0 {
				return fmt.Errorf("entry %d of %d at byte 0x%x: offset 0x%x lies inside the header, which ends at 0x%x", i+1, count, e.At, e.Offset-start, pos-start)
			}
		}
	}
	b.End = max(pos, last)
	return nil
}

// End returns the end of the binary bundle at the start of data.
func End(data []byte) (int64, error) {
	var b Bundle
	err := parse(&b, data, 0, int64(len(data)), false)
	return b.End, err
}

// pastEnd describes the end of data in an error about a file that may be
// truncated.
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
