package kpack

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/content"
)

// Write writes an archive. Entries with the same ordinal share their data, and all
// ordinals from 0 must be in use. Stored must have the form of the scheme. Keys and
// target IDs are written in the order of their first entries.
func Write(sink content.Sink, a *Archive) error {
	var blobs []content.Content
	for i := range a.Entries {
		e := &a.Entries[i]
		if err := CheckKey(e.Key, e.Arch); err != nil {
			return err
		}
		for len(blobs) <= e.Ordinal {
			blobs = append(blobs, content.Content{})
		}
		blobs[e.Ordinal] = e.Stored
	}
	size := int64(len(a.head(0, 0)))
	for _, b := range blobs {
		size += b.Len() + a.Scheme.prefix()
	}
	if err := a.fits(size, len(blobs)); err != nil {
		return err
	}
	if _, err := sink.Write(a.head(size, len(blobs))); err != nil {
		return err
	}
	for _, b := range blobs {
		if err := a.Scheme.store(sink, b); err != nil {
			return err
		}
	}
	_, err := sink.Write(tableOfContents(a, blobs, uint64(size)))
	return err
}

// head returns the bytes before the first piece of data. end is where the table of contents begins.
func (a *Archive) head(end int64, pieces int) []byte {
	b := append([]byte(magic), version, 0, 0, 0)
	b = append(binary.LittleEndian.AppendUint64(b, uint64(end)), make([]byte, dataOffset-headerSize)...)
	if a.Scheme == Zstd {
		b = binary.LittleEndian.AppendUint32(b, uint32(pieces))
	}
	return b
}

// prefix returns the number of bytes before each piece of data: those of its size.
func (s Scheme) prefix() int64 {
	if s == Zstd {
		return 4
	}
	return 0
}

// store writes a piece of data.
func (s Scheme) store(sink content.Sink, piece content.Content) error {
	if s == Zstd {
		if _, err := sink.Write(binary.LittleEndian.AppendUint32(nil, uint32(piece.Len()))); err != nil {
			return err
		}
	}
	return sink.Append(piece)
}

// fits returns an error for data that readers do not accept.
func (a *Archive) fits(size int64, pieces int) error {
	if size < maxSize && pieces <= maxFrames {
		return nil
	}
	return fmt.Errorf("kpack archive of group %s for %s: %d bytes in %d pieces are more than readers accept (%d bytes, %d pieces); split the libraries into several groups",
		a.Group, strings.Join(a.Archs, ", "), size, pieces, int64(maxSize), maxFrames)
}

func tableOfContents(a *Archive, blobs []content.Content, end uint64) []byte {
	count := uint32(8)
	if a.Scheme == None {
		count = 7
	}
	b := msgp.AppendMapHeader(nil, count)
	b = msgp.AppendInt(msgp.AppendString(b, "format_version"), version)
	b = msgp.AppendString(msgp.AppendString(b, "group_name"), a.Group)
	b = msgp.AppendString(msgp.AppendString(b, "gfx_arch_family"), a.Family)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "gfx_arches"), uint32(len(a.Archs)))
	for _, arch := range a.Archs {
		b = msgp.AppendString(b, arch)
	}
	var keys []string
	byKey := make(map[string][]*Entry)
	for i := range a.Entries {
		e := &a.Entries[i]
		if byKey[e.Key] == nil {
			keys = append(keys, e.Key)
		}
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "toc"), uint32(len(keys)))
	for _, key := range keys {
		b = msgp.AppendMapHeader(msgp.AppendString(b, key), uint32(len(byKey[key])))
		for _, e := range byKey[key] {
			b = appendEntry(msgp.AppendString(b, e.Arch), e)
		}
	}
	b = msgp.AppendString(msgp.AppendString(b, "compression_scheme"), string(a.Scheme))
	if a.Scheme == Zstd {
		b = msgp.AppendUint64(msgp.AppendString(b, "zstd_offset"), dataOffset)
		return msgp.AppendUint64(msgp.AppendString(b, "zstd_size"), end-dataOffset)
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "blobs"), uint32(len(blobs)))
	at := uint64(dataOffset)
	for _, blob := range blobs {
		b = msgp.AppendMapHeader(b, 2)
		b = msgp.AppendUint64(msgp.AppendString(b, "offset"), at)
		b = msgp.AppendUint64(msgp.AppendString(b, "size"), uint64(blob.Len()))
		at += uint64(blob.Len())
	}
	return b
}

func appendEntry(b []byte, e *Entry) []byte {
	names := slices.Sorted(maps.Keys(e.Metadata))
	if i := slices.Index(names, "target"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "target")
	}
	count := uint32(3)
	if len(names) > 0 {
		count = 4
	}
	b = msgp.AppendMapHeader(b, count)
	b = msgp.AppendString(msgp.AppendString(b, "type"), e.Type)
	b = msgp.AppendInt(msgp.AppendString(b, "ordinal"), e.Ordinal)
	b = msgp.AppendUint64(msgp.AppendString(b, "original_size"), uint64(e.Size))
	if len(names) == 0 {
		return b
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "metadata"), uint32(len(names)))
	for _, name := range names {
		b = msgp.AppendString(b, name)
		switch v := e.Metadata[name].(type) {
		case string:
			b = msgp.AppendString(b, v)
		case int64:
			b = msgp.AppendInt64(b, v)
		case uint64:
			b = msgp.AppendUint64(b, v)
		case int:
			b = msgp.AppendInt(b, v)
		case bool:
			b = msgp.AppendBool(b, v)
		default:
			b = msgp.AppendNil(b)
		}
	}
	return b
}

// Writer writes an archive to a file incrementally. It does not keep the data
// of code objects.
type Writer struct {
	out     content.Space
	archive Archive
	offsets []content.Content // for their sizes only
	size    int64
}

// NewWriter begins an archive with the Group, Family, Archs and Scheme of a.
func NewWriter(out content.Space, a Archive) (*Writer, error) {
	w := &Writer{out: out, archive: a, size: int64(len(a.head(0, 0)))}
	_, err := out.Reserve(w.size)
	return w, err
}

// Add adds the entries and data of another archive of the same scheme.
func (w *Writer) Add(a *Archive) error {
	ordinals := make(map[int]int)
	for _, e := range a.Entries {
		if err := CheckKey(e.Key, e.Arch); err != nil {
			return err
		}
		ordinal, ok := ordinals[e.Ordinal]
		if !ok {
			ordinal = len(w.offsets)
			ordinals[e.Ordinal] = ordinal
			if err := w.archive.Scheme.store(w.out, e.Stored); err != nil {
				return err
			}
			w.size += e.Stored.Len() + w.archive.Scheme.prefix()
			w.offsets = append(w.offsets, e.Stored)
			if err := w.archive.fits(w.size, len(w.offsets)); err != nil {
				return err
			}
		}
		e.Ordinal = ordinal
		w.archive.Entries = append(w.archive.Entries, e)
	}
	return nil
}

// Close completes the archive and returns its number of entries.
func (w *Writer) Close() (entries int, err error) {
	// Only the sizes of the data are used, because the data may be unmapped.
	if _, err := w.out.Write(tableOfContents(&w.archive, w.offsets, uint64(w.size))); err != nil {
		return 0, err
	}
	if _, err := w.out.WriteAt(w.archive.head(w.size, len(w.offsets)), 0); err != nil {
		return 0, err
	}
	return len(w.archive.Entries), nil
}
