package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Item is one entry of a bundle to be written.
type Item struct {
	ID      string
	Content files.Content
}

// Options says how a binary bundle is laid out.
type Options struct {
	// Align is what the offset of every content, empty ones included, is a
	// multiple of. It need not be a power of two; 1 is LLVM's default, 4096 is
	// what HIP wants.
	Align uint64
	// ShareEqual stores contents that are equal once; their entries point to
	// the same bytes. LLVM's tools never write that, but read it.
	ShareEqual bool
}

// Layout is a binary bundle before it is written: where everything goes.
type Layout struct {
	Header   []byte // what lies at offset 0
	Contents []Placed
	Size     int64 // of the whole bundle
}

// Placed is a content that is stored in a bundle. The gaps between contents are
// zeros.
type Placed struct {
	Offset  int64 // from the start of the bundle
	Content files.Content
	ID      string // of the first entry that has the content
}

// NewLayout lays out a binary bundle of items, in their order, as LLVM does. It
// refuses two items of the same ID.
func NewLayout(items []Item, opt Options) (*Layout, error) {
	if opt.Align == 0 {
		return nil, errors.New("alignment of a bundle must be at least 1")
	}
	if err := distinct(items); err != nil {
		return nil, err
	}
	header := fixedHeader
	for _, it := range items {
		header += fixedEntry + int64(len(it.ID))
	}
	l := &Layout{Header: make([]byte, 0, header), Size: header}
	l.Header = append(l.Header, Magic...)
	l.Header = binary.LittleEndian.AppendUint64(l.Header, uint64(len(items)))
	stored := make(map[int64][]Placed) // by size, for ShareEqual
	for i, it := range items {
		at, shared := find(stored[it.Content.Len()], it.Content)
		if !shared {
			pad := (opt.Align - uint64(l.Size)%opt.Align) % opt.Align
			if pad > uint64(math.MaxInt64-l.Size) || it.Content.Len() > math.MaxInt64-l.Size-int64(pad) {
				return nil, fmt.Errorf("entry %d of %d: %s: at an alignment of 0x%x it would pass the largest size of a file", i+1, len(items), it.ID, opt.Align)
			}
			at = Placed{l.Size + int64(pad), it.Content, it.ID}
			l.Contents = append(l.Contents, at)
			l.Size = at.Offset + it.Content.Len()
			if opt.ShareEqual && it.Content.Len() > 0 {
				stored[it.Content.Len()] = append(stored[it.Content.Len()], at)
			}
		}
		l.Header = binary.LittleEndian.AppendUint64(l.Header, uint64(at.Offset))
		l.Header = binary.LittleEndian.AppendUint64(l.Header, uint64(it.Content.Len()))
		l.Header = binary.LittleEndian.AppendUint64(l.Header, uint64(len(it.ID)))
		l.Header = append(l.Header, it.ID...)
	}
	return l, nil
}

// find returns the one of some contents of equal size that equals c.
func find(stored []Placed, c files.Content) (Placed, bool) {
	for _, p := range stored {
		if bytes.Equal(p.Content.Bytes(), c.Bytes()) {
			return p, true
		}
	}
	return Placed{}, false
}

// Write writes the bundle to sink from start to end. Who can write to positions
// may as well write Header and Contents side by side.
func (l *Layout) Write(sink files.Sink) error {
	if _, err := sink.Write(l.Header); err != nil {
		return err
	}
	pos := int64(len(l.Header))
	for _, p := range l.Contents {
		if err := sink.Zeros(p.Offset - pos); err != nil {
			return err
		}
		if err := sink.Append(p.Content); err != nil {
			return err
		}
		pos = p.Offset + p.Content.Len()
	}
	return nil
}

// Write writes a binary bundle of items to sink: Plan and Layout.Write.
func Write(sink files.Sink, items []Item, opt Options) error {
	l, err := NewLayout(items, opt)
	if err != nil {
		return err
	}
	return l.Write(sink)
}

// distinct refuses items that a reader could not tell apart.
func distinct(items []Item) error {
	seen := make(map[string]int, len(items))
	for i, it := range items {
		if j, ok := seen[it.ID]; ok {
			return fmt.Errorf("entries %d and %d of %d have the same ID: %s", j+1, i+1, len(items), it.ID)
		}
		seen[it.ID] = i
	}
	return nil
}
