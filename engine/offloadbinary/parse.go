package offloadbinary

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Sizes of the parts of a package, in bytes.
const (
	headerSize   = 32
	headerSizeV3 = 40
	entrySize    = 40
	recordSize   = 24
	recordSizeV1 = 16
	maxInflated  = 1 << 48 // larger than any file
)

// Options are the options for reading.
type Options struct {
	// Inflate is called before a compressed package is inflated to size bytes. If
	// it returns false, the package is returned without images, see
	// Binary.NotInflated. Its error ends the sequence. If nil, no package is
	// inflated.
	Inflate func(size int64) (bool, error)
}

// UpTo returns an Options.Inflate that permits packages with a total inflated
// size of n bytes.
func UpTo(n int64) func(size int64) (bool, error) {
	return func(size int64) (bool, error) {
		if size > n {
			return false, nil
		}
		n -= size
		return true, nil
	}
}

// Binary is one of several adjacent offload binaries.
type Binary struct {
	Offset, Size int64 // range of the binary, in bytes
	Version      int
	// Inflated is the uncompressed size of a compressed package, in bytes; 0 if it
	// is not compressed.
	Inflated int64
	// NotInflated reports whether the package has no images because
	// Options.Inflate returned false.
	NotInflated bool
	Images      []Image
}

// Error reports a fault of a package.
type Error struct {
	Offset int64 // of the faulty bytes in the argument of Parse
	// Truncated reports whether a range exceeds the package or the data read.
	Truncated bool

	reason string
}

// Error returns the fault in one line.
func (e *Error) Error() string { return e.reason }

// Parse iterates over the adjacent packages in c, such as a file or a section. The
// first is at the start; zeros after a package are padding. The sequence ends with
// the first error, of type *Error, from Options or of a file that cannot be read. The contents of images are slices
// of c, except in compressed packages.
func Parse(c content.Content, opt Options) iter.Seq2[*Binary, error] {
	return func(yield func(*Binary, error) bool) {
		for at := int64(0); ; {
			p, end, err := parseNext(c, at, opt)
			if !yield(p, err) || err != nil || end == c.Len() {
				return
			}
			at = end
		}
	}
}

// parseNext parses the package at offset at, and returns the offset of the next one.
func parseNext(c content.Content, at int64, opt Options) (p *Binary, end int64, err error) {
	defer guard.Into(&err)()
	if p, err = parseAt(c, at, opt); err != nil {
		return p, 0, err
	}
	end = at + p.Size
	if rest := c.Mapped(guard.Inside)[end:]; !Is(rest) {
		end += zeros(rest)
	}
	return p, end, nil
}

// zeros returns the number of leading zeros in data.
func zeros(data []byte) int64 {
	const block = 512
	var none [block]byte
	n := 0
	for len(data)-n >= block && bytes.Equal(data[n:n+block], none[:]) {
		n += block
	}
	for n < len(data) && data[n] == 0 {
		n++
	}
	return int64(n)
}

// header is the header of a package.
type header struct {
	version  int
	size     uint64
	entries  uint64 // offset
	count    uint64
	inflated uint64
	length   uint64 // of the header
}

func parseAt(c content.Content, at int64, opt Options) (*Binary, error) {
	data := c.Mapped(guard.Inside)[at:]
	h, err := parseHeader(data)
	if err != nil {
		return nil, err.from(at)
	}
	p := &Binary{Offset: at, Size: int64(h.size), Version: h.version}
	body := c.Slice(at, p.Size)
	if h.inflated == 0 {
		p.Images, err = parseImages(body, h)
		for i := range p.Images {
			p.Images[i].Offset += at
		}
		return p, err.from(at).orNil()
	}
	p.Inflated = int64(h.inflated)
	if err := checkRatio(body.Mapped(guard.Inside), h); err != nil {
		return nil, err.from(at)
	}
	p.NotInflated = true
	if opt.Inflate != nil {
		wanted, err := opt.Inflate(p.Inflated)
		if err != nil {
			return nil, err
		}
		p.NotInflated = !wanted
	}
	if p.NotInflated {
		return p, nil
	}
	whole, err := inflate(body.Mapped(guard.Inside), h)
	if err != nil {
		return nil, err.from(at)
	}
	h.size = h.inflated
	p.Images, err = parseImages(content.Memory(whole), h)
	if err != nil {
		err.reason += " (offsets in the inflated package)"
	}
	return p, err.from(at).orNil()
}

// from makes the offset of an error relative to the data that contains the
// package.
func (e *Error) from(at int64) *Error {
	if e != nil {
		e.Offset += at
		e.reason = fmt.Sprintf("offload binary at byte 0x%x: %s", at, e.reason)
	}
	return e
}

// orNil returns e as an error, or nil if e is nil.
func (e *Error) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

func invalid(offset int64, format string, args ...any) *Error {
	return &Error{Offset: offset, reason: fmt.Sprintf(format, args...)}
}

func truncated(offset int64, format string, args ...any) *Error {
	return &Error{Offset: offset, Truncated: true, reason: fmt.Sprintf(format, args...)}
}

func parseHeader(data []byte) (header, *Error) {
	if !Is(data) {
		return header{}, invalid(0, "begins with % x, expected the magic 10 ff 10 ad", data[:min(4, len(data))])
	}
	if len(data) < headerSize {
		return header{}, invalid(0, "the header has %d bytes, found %d", headerSize, len(data))
	}
	h := header{
		version: int(min(binary.LittleEndian.Uint32(data[4:]), 1<<31-1)),
		size:    binary.LittleEndian.Uint64(data[8:]),
		entries: binary.LittleEndian.Uint64(data[16:]),
		count:   binary.LittleEndian.Uint64(data[24:]),
		length:  headerSize,
	}
	if !isVersion(h.version) {
		return h, invalid(4, "version is %d, expected 1 to %d", h.version, NewestVersion)
	}
	v := &versions[h.version]
	h.length = uint64(v.header)
	if v.single {
		h.count = 1 // the word is the size of an entry, which readers ignore
	}
	switch {
	case h.size > uint64(len(data)):
		return h, truncated(8, "its size of %d bytes passes the end at %d", h.size, len(data))
	case h.size < h.length:
		return h, truncated(8, "its size of %d bytes is less than that of its header, %d", h.size, h.length)
	}
	limit := h.size
	if v.compresses {
		h.inflated = binary.LittleEndian.Uint64(data[32:])
		if h.inflated != 0 {
			limit = h.inflated
		}
	}
	switch {
	case h.entries > limit || h.inflated != 0 && h.entries > h.size:
		return h, truncated(16, "the entries' offset 0x%x passes its end at 0x%x", h.entries, min(limit, h.size))
	case h.inflated > maxInflated:
		return h, invalid(32, "its inflated size of %d bytes is impossible", h.inflated)
	case h.inflated != 0 && h.entries < h.length:
		return h, invalid(16, "the entries' offset 0x%x lies in the header", h.entries)
	case h.count > (limit-h.entries)/entrySize:
		return h, truncated(24, "%d entries of %d bytes at 0x%x pass its end at 0x%x", h.count, entrySize, h.entries, limit)
	}
	return h, nil
}

// entry is one entry of a package.
type entry struct {
	image, offload             uint16
	flags                      uint32
	strings, count, data, size uint64
}

// parseImages reads the entries of the package c.
func parseImages(c content.Content, h header) ([]Image, *Error) {
	v := &versions[h.version]
	t := texts{
		data:   c.Mapped(guard.Inside),
		record: uint64(v.record),
		values: v.values,
		known:  map[span]string{},
		// Writers share strings, so their total length can exceed the size, but not
		// by much. A file that shares more was crafted to exhaust memory.
		left: 4*h.size + 1<<16,
	}
	// Tables do not overlap, so the size limits the number of records.
	t.records = h.size / t.record
	images := make([]Image, 0, h.count)
	for i := range h.count {
		at := h.entries + i*entrySize
		e := readEntry(t.data[at:])
		name := func() string { return fmt.Sprintf("image %d of %d, entry at 0x%x", i+1, h.count, at) }
		switch {
		case e.data > h.size || e.size > h.size-e.data:
			return nil, truncated(int64(at)+24, "%s: image offset 0x%x + size 0x%x passes its end at 0x%x", name(), e.data, e.size, h.size)
		case e.strings > h.size || e.count > (h.size-e.strings)/t.record:
			return nil, truncated(int64(at)+8, "%s: %d string records of %d bytes at 0x%x pass its end at 0x%x", name(), e.count, t.record, e.strings, h.size)
		}
		strings, err := t.read(e)
		if err != nil {
			err.reason = name() + ": " + err.reason
			return nil, err
		}
		images = append(images, Image{
			Kind:       ImageKind(e.image),
			Offload:    OffloadKind(e.offload),
			Flags:      e.flags,
			Properties: strings,
			Content:    c.Slice(int64(e.data), int64(e.size)),
			Offset:     int64(e.data),
		})
	}
	return images, nil
}

func readEntry(b []byte) entry {
	return entry{
		image:   binary.LittleEndian.Uint16(b),
		offload: binary.LittleEndian.Uint16(b[2:]),
		flags:   binary.LittleEndian.Uint32(b[4:]),
		strings: binary.LittleEndian.Uint64(b[8:]),
		count:   binary.LittleEndian.Uint64(b[16:]),
		data:    binary.LittleEndian.Uint64(b[24:]),
		size:    binary.LittleEndian.Uint64(b[32:]),
	}
}

// texts reads the strings of a package.
type texts struct {
	data    []byte
	record  uint64 // size of a record
	values  bool   // a record has the size of the value
	records uint64 // largest number of further records
	left    uint64 // bytes of strings that may still be read
	known   map[span]string
}

// span is the location of a string; NUL-terminated strings have length -1.
type span struct {
	offset uint64
	length int64
}

// read returns the strings of an entry, whose records are inside the data.
func (t *texts) read(e entry) (Properties, *Error) {
	if e.count > t.records {
		return nil, invalid(int64(e.strings), "more string records than fit into its size: tables overlap")
	}
	t.records -= e.count
	strings := make(Properties, e.count)
	for i := range strings {
		at := e.strings + uint64(i)*t.record
		key, value := span{binary.LittleEndian.Uint64(t.data[at:]), -1}, span{binary.LittleEndian.Uint64(t.data[at+8:]), -1}
		if t.values {
			value.length = int64(binary.LittleEndian.Uint64(t.data[at+16:]))
			if value.length < 0 {
				return nil, truncated(int64(at)+16, "string record %d at 0x%x: value size 0x%x passes its end", i+1, at, uint64(value.length))
			}
		}
		var err *Error
		if strings[i].Key, err = t.text(key); err == nil {
			strings[i].Value, err = t.text(value)
		}
		if err != nil {
			err.reason = fmt.Sprintf("string record %d at 0x%x: %s", i+1, at, err.reason)
			return nil, err
		}
	}
	return strings, nil
}

// text returns the string at s.
func (t *texts) text(s span) (string, *Error) {
	if text, ok := t.known[s]; ok {
		return text, nil
	}
	size := uint64(len(t.data))
	if s.offset > size {
		return "", truncated(int64(min(s.offset, size)), "string offset 0x%x passes its end at 0x%x", s.offset, size)
	}
	rest := t.data[s.offset:]
	if s.length >= 0 {
		if uint64(s.length) > uint64(len(rest)) {
			return "", truncated(int64(s.offset), "string at 0x%x with %d bytes passes its end at 0x%x", s.offset, s.length, size)
		}
		rest = rest[:s.length]
	} else {
		rest = rest[:min(uint64(len(rest)), t.left+1)]
		end := bytes.IndexByte(rest, 0)
		if end < 0 && uint64(len(rest)) <= t.left {
			return "", truncated(int64(s.offset), "string at 0x%x has no end", s.offset)
		}
		if end >= 0 {
			rest = rest[:end]
		}
	}
	if uint64(len(rest)) > t.left {
		return "", invalid(int64(s.offset), "strings overlap: they have more than %d bytes in a package of %d", 4*size, size)
	}
	t.left -= uint64(len(rest))
	text := string(rest)
	t.known[s] = text
	return text, nil
}
