package kpack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Write writes an archive. Entries with the same ordinal share their data, and all
// ordinals from 0 on are there. Stored is what the scheme says. Keys and target IDs
// have the order of their first entries.
func Write(sink files.Sink, a *Archive) error {
	var blobs []files.Content
	for i := range a.Entries {
		e := &a.Entries[i]
		for len(blobs) <= e.Ordinal {
			blobs = append(blobs, files.Content{})
		}
		blobs[e.Ordinal] = e.Stored
	}
	size := int64(dataOffset)
	for _, b := range blobs {
		size += b.Len()
		if a.Scheme == Zstd {
			size += 4
		}
	}
	if a.Scheme == Zstd {
		size += 4
	}
	if size >= maxSize || len(blobs) > maxFrames {
		return fmt.Errorf("kpack archive of group %s for %s: %d bytes in %d pieces are more than readers accept (%d bytes, %d pieces); split the libraries into several groups",
			a.Group, strings.Join(a.Archs, ", "), size, len(blobs), int64(maxSize), maxFrames)
	}
	head := append([]byte(Magic), version, 0, 0, 0)
	head = append(le.AppendUint64(head, uint64(size)), make([]byte, dataOffset-headerSize)...)
	if _, err := sink.Write(head); err != nil {
		return err
	}
	if a.Scheme == Zstd {
		if _, err := sink.Write(le.AppendUint32(nil, uint32(len(blobs)))); err != nil {
			return err
		}
	}
	for _, b := range blobs {
		if a.Scheme == Zstd {
			if _, err := sink.Write(le.AppendUint32(nil, uint32(b.Len()))); err != nil {
				return err
			}
		}
		if err := sink.Append(b); err != nil {
			return err
		}
	}
	_, err := sink.Write(tableOfContents(a, blobs, uint64(size)))
	return err
}

func tableOfContents(a *Archive, blobs []files.Content, end uint64) []byte {
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
	names := make([]string, 0, len(e.Metadata))
	for name := range e.Metadata {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == "target") != (b == "target") {
			if a == "target" {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
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
