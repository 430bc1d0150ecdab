package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Item is an entry of a bundle to write.
type Item struct {
	ID      string
	Content content.Content
}

// Options are the layout options of a binary bundle.
type Options struct {
	// Align is the alignment of the offset of every content, including empty ones,
	// in bytes. It need not be a power of two. LLVM's default is 1; HIP requires
	// 4096.
	Align uint64
	// ShareEqual stores equal contents once; their entries refer to the same
	// bytes. LLVM's tools do not write such bundles, but read them.
	ShareEqual bool
}

// Layout describes a binary bundle to write.
type Layout struct {
	// Parts are the header and the contents, in order, with zeros between them. A content has the
	// ID of the first entry that has it.
	Parts []content.Part
	Size  int64 // of the whole bundle
}

// NewLayout computes the layout of a binary bundle of items, in their order, as
// LLVM does. It rejects the items that Check does.
func NewLayout(items []Item, opt Options) (*Layout, error) {
	if opt.Align == 0 {
		return nil, errors.New("alignment of a bundle must be at least 1")
	}
	if err := Check(items); err != nil {
		return nil, err
	}
	size := fixedHeader
	for _, it := range items {
		size += fixedEntry + int64(len(it.ID))
	}
	le := binary.LittleEndian
	header := append(make([]byte, 0, size), Magic...)
	header = le.AppendUint64(header, uint64(len(items)))
	l := &Layout{Parts: make([]content.Part, 1, len(items)+1), Size: size}
	stored := make(map[int64][]content.Part) // by size, for ShareEqual
	for i, it := range items {
		at, shared := find(stored[it.Content.Len()], it.Content)
		if !shared {
			pad := (opt.Align - uint64(l.Size)%opt.Align) % opt.Align
			if pad > uint64(math.MaxInt64-l.Size) || it.Content.Len() > math.MaxInt64-l.Size-int64(pad) {
				return nil, fmt.Errorf("entry %d of %d: %s: with an alignment of 0x%x, it would exceed the largest size of a file", i+1, len(items), it.ID, opt.Align)
			}
			at = content.Part{Offset: l.Size + int64(pad), Content: it.Content, ID: it.ID}
			l.Parts = append(l.Parts, at)
			l.Size = at.End()
			if opt.ShareEqual && it.Content.Len() > 0 {
				stored[it.Content.Len()] = append(stored[it.Content.Len()], at)
			}
		}
		header = le.AppendUint64(header, uint64(at.Offset))
		header = le.AppendUint64(header, uint64(it.Content.Len()))
		header = le.AppendUint64(header, uint64(len(it.ID)))
		header = append(header, it.ID...)
	}
	l.Parts[0].Content = content.Memory(header)
	return l, nil
}

// find returns the stored content that equals c. All stored contents have the
// size of c.
func find(stored []content.Part, c content.Content) (content.Part, bool) {
	for _, p := range stored {
		if bytes.Equal(p.Content.Mapped(guard.Inside), c.Mapped(guard.Inside)) {
			return p, true
		}
	}
	return content.Part{}, false
}

// Write writes the bundle to sink from start to end. A caller that can write at
// offsets may write the parts in parallel instead.
func (l *Layout) Write(sink content.Sink) error { return content.WriteParts(sink, l.Parts, l.Size) }

// Check returns an error for items that no reader accepts: too many, with too long IDs, or two with the same ID.
func Check(items []Item) error {
	if len(items) > maxEntries {
		return fmt.Errorf("%d entries: more than the %d that a bundle may have", len(items), maxEntries)
	}
	size := fixedHeader
	for _, it := range items {
		if size += fixedEntry + int64(len(it.ID)); size > maxHeader {
			return fmt.Errorf("%d entries: their IDs make a header of more than %d bytes", len(items), maxHeader)
		}
	}
	seen := make(map[string]int, len(items))
	for i, it := range items {
		if j, ok := seen[it.ID]; ok {
			return fmt.Errorf("entries %d and %d of %d have the same ID: %s", j+1, i+1, len(items), it.ID)
		}
		seen[it.ID] = i
	}
	return nil
}
