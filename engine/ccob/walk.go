package ccob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zlib"
)

// plainMagic is the first bytes of a plain binary bundle.
const plainMagic = "__CLANG_OFFLOAD_BUNDLE__"

// Extent is the position of one bundle among others.
type Extent struct {
	Offset, End int64
	Header      *Header // of a compressed bundle; nil for a plain one
}

// Walk returns the extents of the adjacent bundles in data, such as a .hip_fatbin
// section: compressed and plain ones, with padding before, between and after
// them. plainEnd returns the size of the plain bundle at the start of its
// argument. The headers define the extents; bytes inside a bundle that look like
// another bundle do not count. The sequence ends with the first
// error; offsets in errors count from the start of data.
func Walk(data []byte, plainEnd func([]byte) (int64, error)) iter.Seq2[Extent, error] {
	return func(yield func(Extent, error) bool) {
		for pos := int64(0); ; {
			e, err := nextExtent(data, pos, plainEnd)
			if err == io.EOF {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
			pos = e.End
		}
	}
}

// ExtentAt returns the extent of the bundle that begins at pos, see Walk.
func ExtentAt(data []byte, pos int64, plainEnd func([]byte) (int64, error)) (Extent, error) {
	e, err := nextExtent(data, pos, plainEnd)
	if err == io.EOF || err == nil && e.Offset != pos {
		err = fmt.Errorf("byte 0x%x: no bundle begins there", pos)
	}
	return e, err
}

// nextExtent returns the first bundle at or after pos.
func nextExtent(data []byte, pos int64, plainEnd func([]byte) (int64, error)) (Extent, error) {
	for junk := false; ; {
		skip := nextMagic(data[pos:])
		if skip < 0 {
			return Extent{}, io.EOF
		}
		junk = junk || !allZero(data[pos:pos+int64(skip)])
		pos += int64(skip)
		e := Extent{Offset: pos}
		rest := data[pos:]
		if rest[0] == plainMagic[0] {
			n, err := plainEnd(rest)
			if err == nil && (n < int64(len(plainMagic)) || n > int64(len(rest))) {
				err = fmt.Errorf("byte 0x0: the plain bundle ends at 0x%x, the data at 0x%x", uint64(n), len(rest))
			}
			if err != nil {
				return e, fmt.Errorf("plain bundle at byte 0x%x: %w", pos, err)
			}
			e.End = pos + n
			return e, nil
		}
		h, err := Parse(rest)
		if err == nil && !(junk && h.Version == 1) {
			var n int64
			if n, err = h.StreamEnd(rest); err == nil {
				e.End, e.Header = pos+n, h
				return e, nil
			}
		}
		if !junk && err != ErrMagic {
			return e, fmt.Errorf("compressed bundle at byte 0x%x: %w", pos, err)
		}
		// The four letters of the magic can occur by chance in data other than
		// padding; that does not justify the cost of finding the end of an old
		// bundle.
		pos++
	}
}

// nextMagic returns the offset in b at which the next bundle may begin, or -1.
// It searches no further than necessary, because the rest may be large.
func nextMagic(b []byte) int {
	if bytes.HasPrefix(b, []byte(plainMagic)) || bytes.HasPrefix(b, []byte(Magic)) {
		return 0 // avoids a search of the rest for each of very many small bundles
	}
	const step = 64 << 10
	for off := 0; off < len(b); off += step {
		part := b[off:min(len(b), off+step+len(plainMagic)-1)]
		c := bytes.Index(part, []byte(Magic))
		if c >= 0 {
			part = part[:c]
		}
		if p := bytes.Index(part, []byte(plainMagic)); p >= 0 {
			return off + p
		}
		if c >= 0 {
			return off + c
		}
	}
	return -1
}

// StreamEnd returns the end of the bundle h at the start of data: its file size
// or, in version 1, the end of its zstd frames or zlib stream. The latter
// requires decoding.
func (h *Header) StreamEnd(data []byte) (int64, error) {
	if h.Version > 1 {
		return h.End, nil
	}
	if h.Method == Zlib {
		return zlibEnd(data, h)
	}
	pos, raw := h.DataOffset, int64(0)
	for f, err := range frames(data, pos) {
		if !isFrame(data[f.off:]) {
			break
		}
		if err == nil {
			err = f.walk(data)
		}
		if err != nil {
			return 0, err
		}
		raw += max(f.size, 0)
		pos = f.end
	}
	if raw > h.RawSize {
		return 0, tooLong(h.RawSize)
	}
	if pos == h.DataOffset {
		return 0, fault(pos, ZstdNoFrame, "no zstd frame after the header")
	}
	return pos, nil
}

// zlibEnd is StreamEnd for zlib.
func zlibEnd(data []byte, h *Header) (int64, error) {
	r := bytes.NewReader(data[h.DataOffset:])
	d, err := zlib.NewReader(r)
	if err == nil {
		var n int64
		n, err = io.Copy(io.Discard, io.LimitReader(d, h.RawSize+1))
		if n > h.RawSize {
			return 0, fault(0, ZlibTooLong, "the data decompresses to more than the %d bytes that the header states", h.RawSize)
		}
	}
	if err != nil {
		e := fault(h.DataOffset, ZlibCorrupt, "zlib data: %v", err)
		e.err = errors.Unwrap(err)
		return 0, e
	}
	return int64(len(data)) - int64(r.Len()), nil
}
