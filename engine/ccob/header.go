package ccob

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Magic is the first bytes of every compressed bundle.
const Magic = "CCOB"

// Method is the compression method of a compressed bundle.
type Method uint16

// The methods of the format.
const (
	Zlib Method = 0
	Zstd Method = 1
)

// String returns the name of m as LLVM prints it.
func (m Method) String() string {
	switch m {
	case Zlib:
		return "zlib"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("method %d", uint16(m))
}

// Header is the header of a compressed bundle.
type Header struct {
	Version    int    // 1, 2 or 3
	Method     Method // Zlib or Zstd
	FileSize   int64  // bytes of header and data as stated; 0 in version 1, which does not state it
	RawSize    int64  // stated size of the decompressed data, in bytes
	Hash       uint64 // the first 8 bytes of the MD5 sum of the raw bytes, read as a little endian number
	DataOffset int64  // offset of the data: the size of the header
	// End is the end of the bundle: FileSize. In version 1 it is the end of the
	// argument of Parse; StreamEnd finds the actual end.
	End int64
}

// headerSize returns the size of the header of a known version.
func headerSize(version int) int64 {
	switch version {
	case 1:
		return 20
	case 2:
		return 24
	default:
		return 32
	}
}

// Is reports whether data begins with the magic of a compressed bundle.
func Is(data []byte) bool { return len(data) >= 8 && string(data[:4]) == Magic }

// Parse reads and checks the header of the compressed bundle that data begins
// with. Data after the bundle is not an error. The error is ErrMagic if data
// does not begin with the magic, else an *Error.
func Parse(data []byte) (*Header, error) { return parse(data, false) }

// parse is Parse; lenient accepts the sizes that LLVM accepts: a file size is
// used only if it is possible, and a raw size is an upper bound.
func parse(data []byte, lenient bool) (*Header, error) {
	if !Is(data) {
		return nil, ErrMagic
	}
	le := binary.LittleEndian
	h := &Header{Version: int(le.Uint16(data[4:])), Method: Method(le.Uint16(data[6:]))}
	if h.Version < 1 || h.Version > 3 {
		return nil, fault(4, Other, "version %d of a compressed bundle, expected 1, 2 or 3", h.Version)
	}
	h.DataOffset = headerSize(h.Version)
	if int64(len(data)) < h.DataOffset {
		return nil, fault(0, HeaderCut,
			"the header of a compressed bundle of version %d has %d bytes, found only %d", h.Version, h.DataOffset, len(data))
	}
	if h.Method != Zlib && h.Method != Zstd {
		return nil, fault(6, UnknownMethod, "unknown compression method %d, expected 0 (zlib) or 1 (zstd)", uint16(h.Method))
	}
	var file, raw uint64
	h.End = int64(len(data))
	rawAt := int64(8)
	switch h.Version {
	case 1:
		raw, h.Hash = uint64(le.Uint32(data[8:])), le.Uint64(data[12:])
	case 2:
		file, raw, h.Hash = uint64(le.Uint32(data[8:])), uint64(le.Uint32(data[12:])), le.Uint64(data[16:])
		rawAt = 12
	case 3:
		file, raw, h.Hash = le.Uint64(data[8:]), le.Uint64(data[16:]), le.Uint64(data[24:])
		rawAt = 16
	}
	if h.Version > 1 {
		switch {
		case file >= uint64(h.DataOffset) && file <= uint64(len(data)):
			h.FileSize, h.End = int64(file), int64(file)
		case lenient:
			h.FileSize = int64(min(file, math.MaxInt64))
		case file < uint64(h.DataOffset):
			return nil, fault(8, Other, "file size %d is less than the %d bytes of the header", file, h.DataOffset)
		default:
			return nil, fault(8, Other, "the compressed bundle has %d bytes by its header, found only %d; was it cut short?", file, len(data))
		}
	}
	most := h.Method.mostRaw(h.End - h.DataOffset)
	if raw > uint64(most) {
		if !lenient {
			return nil, fault(rawAt, Other, "raw size %d: %d bytes of %v data cannot decompress to more than %d", raw, h.End-h.DataOffset, h.Method, most)
		}
		raw = uint64(most)
	}
	h.RawSize = int64(raw)
	return h, nil
}

// mostRaw returns the largest decompressed size of n bytes of compressed data.
func (m Method) mostRaw(n int64) int64 {
	if m == Zlib {
		return n * 1032 // the limit of deflate: 258 bytes from 2 bits
	}
	return (n/4 + 1) * maxBlock // one RLE block has 4 bytes
}
