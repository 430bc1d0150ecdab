// Package kpack reads and writes kpack archives, which hold the device code of
// libraries in separate files, and the markers of libraries whose code is in such
// archives.
//
// # Archive
//
// Numbers in the header are little endian:
//
//	 0  "KPAK"
//	 4  u32 version: 1
//	 8  u64 offset of the table of contents
//	16  zeros up to 64, where data begins
//
// The table of contents is a MessagePack map up to the end of the file:
// format_version, group_name, gfx_arch_family, gfx_arches, toc, compression_scheme and
// the keys of the scheme. toc maps keys of the form NAME#INDEX to maps of target IDs
// to entries {type, ordinal, original_size, metadata}. The scheme "none" has blobs, an
// array by ordinal of {offset, size}. The scheme "zstd-per-kernel" has zstd_offset and
// zstd_size: a u32 number of frames there, and for each ordinal a u32 size and one zstd
// frame, which states its content size.
package kpack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// magic is the first bytes of every archive.
const magic = "KPAK"

// Extension is the end of the file names of archives.
const Extension = ".kpack"

const (
	version    = 1
	headerSize = 16
	dataOffset = 64

	// maxSize is the largest archive that all readers accept, in bytes.
	maxSize = 2 << 30
	// maxFrames is the number of frames that readers accept.
	maxFrames = 1 << 20
)

// Scheme is the compression scheme of an archive.
type Scheme string

// The schemes.
const (
	None Scheme = "none"
	Zstd Scheme = "zstd-per-kernel"
)

// Archive is a parsed archive, or one to write.
type Archive struct {
	Group, Family string
	// Archs are the target IDs for which a runtime searches the archive.
	Archs   []string
	Scheme  Scheme
	Entries []Entry // in the order of the table of contents
	// Warnings are faults that readers accept.
	Warnings []string
}

// Entry is a code object in an archive.
type Entry struct {
	Key     string // NAME#INDEX
	Arch    string // target ID
	Type    string
	Ordinal int
	// Size is the size of the code object in bytes.
	Size     int64
	Metadata map[string]any
	// Target is the bundle entry ID in the metadata, or "".
	Target string

	// Stored are the bytes in the archive, compressed or not.
	Stored content.Content
}

// ID returns the bundle entry ID of the entry.
func (e *Entry) ID() string { return cmp.Or(e.Target, "hipv4-amdgcn-amd-amdhsa--"+e.Arch) }

// SplitKey returns the name and the index in a key. For a key without an index, it
// returns the key and false.
func SplitKey(key string) (name string, index int, ok bool) {
	at := strings.LastIndexByte(key, '#')
	if at < 0 || at+1 == len(key) || strings.Trim(key[at+1:], "0123456789") != "" {
		return key, 0, false
	}
	n, err := strconv.Atoi(key[at+1:])
	if err != nil {
		return key, 0, false
	}
	return key[:at], n, true
}

// Key returns the key for the code of a wrapper of a library.
func Key(name string, index int) string {
	return strings.ReplaceAll(name, `\`, "/") + "#" + strconv.Itoa(index)
}

// CheckKey returns an error for a key or a target ID that no archive may have, because it names no file: readers
// extract code objects to files with the names of both.
func CheckKey(key, arch string) error {
	for _, s := range []string{key, arch} {
		slashed := strings.ReplaceAll(s, `\`, "/")
		switch {
		case s == "" || !utf8.ValidString(s) || strings.ContainsRune(s, 0) || path.IsAbs(slashed) || len(slashed) > 1 && slashed[1] == ':' && strings.Contains(slashed, "/"):
		case strings.Contains("/"+slashed+"/", "/../"):
		default:
			continue
		}
		return fmt.Errorf("key %.200q for %.100q: expected a file name in UTF-8 that is not empty or absolute, without .. and NUL", key, arch)
	}
	return nil
}

// CheckName returns an error for the name of a library whose keys CheckKey rejects.
func CheckName(name string) error {
	if name == "" || CheckKey(Key(name, 0), "gfx") != nil {
		return fmt.Errorf("name %.200q of a library in archives: expected a file name in UTF-8 that is not empty or absolute, without .. and NUL", name)
	}
	return nil
}

// Is reports whether data begins with the magic of an archive.
func Is(data []byte) bool { return len(data) >= 4 && string(data[:4]) == magic }

// Parse parses an archive. It checks everything except the compressed data.
func Parse(c content.Content) (*Archive, error) {
	data := c.Mapped(guard.Inside)
	if !Is(data) || len(data) < headerSize {
		return nil, fmt.Errorf("not a kpack archive: found %d bytes without the magic %s", len(data), magic)
	}
	if v := binary.LittleEndian.Uint32(data[4:]); v != version {
		return nil, fmt.Errorf("kpack archive: found version %d, expected %d", v, version)
	}
	at := binary.LittleEndian.Uint64(data[8:])
	if at < headerSize || at >= uint64(len(data)) {
		return nil, fmt.Errorf("kpack archive: the table of contents at byte %d is outside of the file of %d bytes", at, len(data))
	}
	p := &parser{a: &Archive{}, data: c, end: at}
	if at >= dataOffset && len(bytes.Trim(data[headerSize:dataOffset], "\x00")) > 0 {
		p.a.Warnings = append(p.a.Warnings, "bytes 16 to 64 are not zero")
	}
	toc := data[at:]
	rest, err := checkValue(toc, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("kpack archive: table of contents: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("kpack archive: found %d bytes after the table of contents, expected the end of the file", len(rest))
	}
	if err := p.toc(toc); err != nil {
		return nil, fmt.Errorf("kpack archive: %w", err)
	}
	return p.a, nil
}

// maxDepth is the largest nesting depth of values.
const maxDepth = 32

// checkValue checks the MessagePack value at the start of b: its counts do not exceed
// the data, it is not nested too deeply, and no map has duplicate keys.
func checkValue(b []byte, depth int) (rest []byte, err error) {
	if depth == 0 {
		return nil, fmt.Errorf("values are nested in more than %d levels", maxDepth)
	}
	if len(b) == 0 {
		return nil, errCut
	}
	switch msgp.NextType(b) {
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(b)
		if err != nil {
			return nil, errCut
		}
		if uint64(n)*2 > uint64(len(rest)) {
			return nil, fmt.Errorf("a map of %d entries in %d bytes", n, len(rest))
		}
		seen := make(map[string]bool, n)
		for range n {
			key := rest
			if rest, err = checkValue(rest, depth-1); err != nil {
				return nil, err
			}
			text := string(key[:len(key)-len(rest)])
			if seen[text] {
				return nil, fmt.Errorf("a map has the key %.100q twice", text)
			}
			seen[text] = true
			if rest, err = checkValue(rest, depth-1); err != nil {
				return nil, err
			}
		}
		return rest, nil
	case msgp.ArrayType:
		n, rest, err := msgp.ReadArrayHeaderBytes(b)
		if err != nil {
			return nil, errCut
		}
		if uint64(n) > uint64(len(rest)) {
			return nil, fmt.Errorf("an array of %d values in %d bytes", n, len(rest))
		}
		for range n {
			if rest, err = checkValue(rest, depth-1); err != nil {
				return nil, err
			}
		}
		return rest, nil
	case msgp.InvalidType:
		return nil, fmt.Errorf("byte 0x%02x does not begin a value", b[0])
	}
	rest, err = msgp.Skip(b)
	if err != nil {
		return nil, errCut
	}
	return rest, nil
}

var errCut = errors.New("MessagePack data is cut short or damaged")

// parser reads a table of contents that checkValue has accepted.
type parser struct {
	a    *Archive
	data content.Content
	end  uint64 // of the data

	blobs            []content.Content
	zstdAt, zstdSize uint64
}

// fields calls fn with every key of a map and the bytes after the key. fn returns
// the bytes after the value.
func fields(b []byte, what string, fn func(key string, b []byte) ([]byte, error)) ([]byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, fmt.Errorf("%s: expected a map", what)
	}
	for range n {
		var key string
		if key, b, err = msgp.ReadStringBytes(b); err != nil {
			return nil, fmt.Errorf("%s: expected keys that are text", what)
		}
		if b, err = fn(key, b); err != nil {
			return nil, fmt.Errorf("%s: %w", clip(key), err)
		}
	}
	return b, nil
}

// clip shortens a name for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

func text(b []byte, to *string) ([]byte, error) {
	s, b, err := msgp.ReadStringBytes(b)
	if err != nil {
		return nil, errors.New("expected text")
	}
	*to = s
	return b, nil
}

func number(b []byte, to *uint64) ([]byte, error) {
	n, b, err := msgp.ReadUint64Bytes(b)
	if err != nil {
		return nil, errors.New("expected a non-negative number")
	}
	*to = n
	return b, nil
}

func (p *parser) toc(b []byte) error {
	var toc []byte
	have := make(map[string]bool)
	_, err := fields(b, "table of contents", func(key string, b []byte) ([]byte, error) {
		have[key] = true
		switch key {
		case "format_version":
			var v uint64
			b, err := number(b, &v)
			if err == nil && v != version {
				return nil, fmt.Errorf("found %d, expected %d", v, version)
			}
			return b, err
		case "group_name":
			return text(b, &p.a.Group)
		case "gfx_arch_family":
			return text(b, &p.a.Family)
		case "gfx_arches":
			return array(b, "an array of target IDs", &p.a.Archs)
		case "toc":
			toc = b
			return msgp.Skip(b)
		case "compression_scheme":
			return text(b, (*string)(&p.a.Scheme))
		case "blobs":
			return p.readBlobs(b)
		case "zstd_offset":
			return number(b, &p.zstdAt)
		case "zstd_size":
			return number(b, &p.zstdSize)
		}
		return msgp.Skip(b)
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"format_version", "gfx_arches", "toc"} {
		if !have[key] {
			return fmt.Errorf("the table of contents has no %s", key)
		}
	}
	if !have["compression_scheme"] {
		p.a.Scheme = None
		p.a.Warnings = append(p.a.Warnings, "no compression_scheme: using none")
	}
	switch p.a.Scheme {
	case None:
		if !have["blobs"] {
			return errors.New("the scheme none has no blobs")
		}
	case Zstd:
		if !have["zstd_offset"] {
			return errors.New("the scheme zstd-per-kernel has no zstd_offset")
		}
		if err := p.readFrames(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("compression scheme %.100q: expected %s or %s", p.a.Scheme, None, Zstd)
	}
	return p.entries(toc)
}

// Empty returns a copy of a without entries.
func (a *Archive) Empty() *Archive {
	return &Archive{Group: a.Group, Family: a.Family, Archs: a.Archs, Scheme: a.Scheme}
}

// Keep returns an archive with the entries for some of the targets of a.
func (a *Archive) Keep(archs []string) *Archive {
	less := a.Empty()
	less.Archs = archs
	if !slices.Contains(archs, a.Family) && slices.Contains(a.Archs, a.Family) {
		less.Family = archs[0]
	}
	ordinals := make(map[int]int)
	for _, e := range a.Sorted() {
		if !slices.Contains(archs, e.Arch) {
			continue
		}
		ordinal, ok := ordinals[e.Ordinal]
		if !ok {
			ordinal = len(ordinals)
			ordinals[e.Ordinal] = ordinal
		}
		e.Ordinal = ordinal
		less.Entries = append(less.Entries, e)
	}
	return less
}

// Sorted returns the entries by ordinal, key and target ID.
func (a *Archive) Sorted() []Entry {
	return slices.SortedStableFunc(slices.Values(a.Entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.Key, b.Key), strings.Compare(a.Arch, b.Arch))
	})
}

// array reads an array of texts.
func array(b []byte, what string, to *[]string) ([]byte, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, fmt.Errorf("expected %s", what)
	}
	*to = []string{}
	for range n {
		var s string
		if b, err = text(b, &s); err != nil {
			return nil, err
		}
		*to = append(*to, s)
	}
	return b, nil
}

// inData checks that a range is inside the data of the archive.
func (p *parser) inData(at, size uint64) error {
	if at < headerSize || at > p.end || size > p.end-at {
		return fmt.Errorf("%d bytes at byte %d: outside of the data, which ends at byte %d", size, at, p.end)
	}
	return nil
}

func (p *parser) readBlobs(b []byte) ([]byte, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, errors.New("expected an array")
	}
	for i := range n {
		var at, size uint64
		b, err = fields(b, fmt.Sprintf("blob %d", i), func(key string, b []byte) ([]byte, error) {
			switch key {
			case "offset":
				return number(b, &at)
			case "size":
				return number(b, &size)
			}
			return msgp.Skip(b)
		})
		if err != nil {
			return nil, err
		}
		if size == 0 && at == 0 {
			at = headerSize
		}
		if err := p.inData(at, size); err != nil {
			return nil, fmt.Errorf("blob %d: %w", i, err)
		}
		p.blobs = append(p.blobs, p.data.Slice(int64(at), int64(size)))
	}
	return b, nil
}

func (p *parser) readFrames() error {
	if err := p.inData(p.zstdAt, p.zstdSize); err != nil {
		return fmt.Errorf("zstd_offset and zstd_size: %w", err)
	}
	data := p.data.Mapped(guard.Inside)[p.zstdAt : p.zstdAt+p.zstdSize]
	if len(data) < 4 {
		return errors.New("zstd_size: more frames than the data can hold")
	}
	n := binary.LittleEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-4)/4 || n > maxFrames {
		return fmt.Errorf("%d zstd frames in %d bytes", n, len(data))
	}
	at := uint64(4)
	for i := range n {
		if uint64(len(data))-at < 4 {
			return fmt.Errorf("zstd frame %d of %d: its size passes the end of the data", i, n)
		}
		size := uint64(binary.LittleEndian.Uint32(data[at:]))
		if at += 4; size > uint64(len(data))-at {
			return fmt.Errorf("zstd frame %d of %d: %d bytes pass the end of the data", i, n, size)
		}
		p.blobs = append(p.blobs, p.data.Slice(int64(p.zstdAt+at), int64(size)))
		at += size
	}
	if at < uint64(len(data)) {
		p.a.Warnings = append(p.a.Warnings, fmt.Sprintf("%d bytes follow the zstd frames", uint64(len(data))-at))
	}
	return nil
}

func (p *parser) entries(b []byte) error {
	_, err := fields(b, "toc", func(key string, b []byte) ([]byte, error) {
		return fields(b, "entries", func(arch string, b []byte) ([]byte, error) {
			e := Entry{Key: key, Arch: arch, Metadata: map[string]any{}}
			ordinal, size, haveOrdinal, haveSize := uint64(0), uint64(0), false, false
			b, err := fields(b, "entry", func(field string, b []byte) ([]byte, error) {
				switch field {
				case "type":
					return text(b, &e.Type)
				case "ordinal":
					haveOrdinal = true
					return number(b, &ordinal)
				case "original_size":
					haveSize = true
					return number(b, &size)
				case "metadata":
					return metadata(b, &e)
				}
				return msgp.Skip(b)
			})
			if err != nil {
				return nil, err
			}
			if !haveOrdinal || ordinal >= uint64(len(p.blobs)) {
				return nil, fmt.Errorf("ordinal %d: the archive has %d pieces of data", ordinal, len(p.blobs))
			}
			e.Ordinal, e.Stored = int(ordinal), p.blobs[ordinal]
			if size > math.MaxInt64 {
				return nil, fmt.Errorf("original_size %d: larger than any file", size)
			}
			if e.Size = int64(size); !haveSize {
				return nil, errors.New("original_size is missing")
			}
			if p.a.Scheme == None && e.Size != e.Stored.Len() {
				return nil, fmt.Errorf("original_size %d: the data has %d bytes", e.Size, e.Stored.Len())
			}
			if p.a.Scheme == Zstd {
				if err := checkFrame(e.Stored.Mapped(guard.Inside), size); err != nil {
					return nil, err
				}
			}
			p.a.Entries = append(p.a.Entries, e)
			return b, nil
		})
	})
	return err
}

// checkFrame checks that a zstd frame states a content size.
func checkFrame(frame []byte, size uint64) error {
	var h zstd.Header
	if err := h.Decode(frame); err != nil || h.Skippable {
		return errors.New("its data is not a zstd frame")
	}
	if !h.HasFCS {
		return errors.New("its zstd frame does not state its content size")
	}
	if h.FrameContentSize != size {
		return fmt.Errorf("original_size %d: its zstd frame has %d bytes", size, h.FrameContentSize)
	}
	return nil
}

// metadata reads the metadata of an entry.
func metadata(b []byte, e *Entry) ([]byte, error) {
	if msgp.IsNil(b) {
		return msgp.ReadNilBytes(b)
	}
	return fields(b, "metadata", func(key string, b []byte) ([]byte, error) {
		value, b, err := msgp.ReadIntfBytes(b)
		if err != nil {
			return nil, errCut
		}
		switch v := value.(type) {
		case string:
			if e.Metadata[key] = v; key == "target" {
				e.Target = v
			}
		case int64, uint64, int, bool, nil:
			e.Metadata[key] = v
		default:
			e.Metadata[key] = fmt.Sprint(v)
		}
		return b, nil
	})
}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<31), zstd.WithDecoderMaxMemory(1<<40))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}}

// window returns the memory required to decompress an entry, in bytes.
func (e *Entry) window(scheme Scheme) int64 {
	var h zstd.Header
	if scheme == None || h.Decode(e.Stored.Mapped(guard.Inside)) != nil {
		return 0
	}
	return min(int64(min(h.WindowSize, 1<<31)), e.Size)
}

// WriteTo writes the code object of an entry to sink.
func (e *Entry) WriteTo(ctx context.Context, b *budget.Budget, sink content.Sink, scheme Scheme) error {
	if scheme == None {
		return sink.Append(e.Stored)
	}
	return b.WithBytes(ctx, e.window(scheme), func(ctx context.Context) error {
		d := decoders.Get().(*zstd.Decoder)
		defer decoders.Put(d)
		if err := d.Reset(bytes.NewReader(e.Stored.Mapped(guard.Inside))); err != nil {
			return err
		}
		n, err := io.Copy(sink, io.LimitReader(d, e.Size+1))
		if err != nil {
			return fmt.Errorf("its zstd frame is damaged: %w", err)
		}
		if n != e.Size {
			return fmt.Errorf("its zstd frame does not hold the %d bytes that it states", e.Size)
		}
		return nil
	})
}

// Content returns the code object of an entry, and the reservation of its memory if
// it was decompressed.
func (e *Entry) Content(ctx context.Context, b *budget.Budget, scheme Scheme) (content.Content, *budget.Reservation, error) {
	if scheme == None {
		return e.Stored, nil, nil
	}
	memory, err := b.Reserve(ctx, e.Size)
	if err != nil {
		return content.Content{}, nil, err
	}
	out := content.NewBuffer(e.Size)
	if err := e.WriteTo(ctx, b, out, scheme); err != nil {
		memory.Release()
		return content.Content{}, nil, err
	}
	return content.Memory(out.Bytes()), memory, nil
}
