package prune

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// unit is a bundle, a CUDA fatbinary, a range of sections with entries, or a package of images.
type unit struct {
	member, section string
	at              int64           // offset in the section or file
	stored          content.Content // its bytes
	reader          *ccob.Reader    // of a compressed bundle
	entries         []entry
	align           uint64 // of the entries
	share           bool   // equal contents are stored once
	pack            *offloadbinary.Binary
	fatbinary       bool // of CUDA
	loose           bool // the entries are sections of an object

	// the result of the changes
	parts      []content.Part
	size       int64
	compressed bool
	newAt      int64
	imageAt    map[int]int64 // offsets of images in a rewritten package
}

func (u *unit) where() string {
	name := fmt.Sprintf("bundle at byte 0x%x", u.at)
	if u.section != "" {
		name = u.section + ": " + name
	}
	if u.member != "" {
		name = u.member + ": " + name
	}
	return name
}

// openBundle reads the bundle that begins at an offset of c. end is the limit of the
// bundle: the next bundle or the end of the section.
func openBundle(ctx context.Context, c content.Content, at, end int64, o *Options) (*unit, error) {
	data := c.Mapped(guard.Inside)[at:end]
	u := &unit{at: at}
	switch {
	case bundle.Is(data):
		b, err := bundle.Parse(data)
		if err != nil {
			return nil, err
		}
		u.stored = c.Slice(at, b.End)
		u.describe(b)
	case ccob.Is(data):
		h, err := ccob.Parse(data)
		if err != nil {
			return nil, err
		}
		stop := h.End
		if h.Version == 1 {
			if stop, err = h.StreamEnd(data); err != nil {
				return nil, err
			}
		}
		if stop > end-at {
			return nil, fmt.Errorf("compressed bundle of 0x%x bytes: overlaps what follows it at byte 0x%x", stop, end)
		}
		u.stored = c.Slice(at, stop)
		u.compressed = true
		u.reader, err = ccob.Open(data[:stop], ccob.Options{Hash: ccob.HashFull, Budget: o.Budget})
		if err != nil {
			return nil, err
		}
		b, err := bundle.ReadHeader(u.reader.RawSize(), func(n int64) ([]byte, error) { return u.reader.Prefix(ctx, n) })
		if err != nil {
			return nil, err
		}
		if b == nil {
			return nil, errors.New("the compressed data is not a bundle")
		}
		u.describe(b)
	default:
		return nil, errors.New("no bundle begins there")
	}
	u.size = u.stored.Len()
	return u, o.memory.hold(ctx, u)
}

// describe sets the entries to those of a bundle.
func (u *unit) describe(b *bundle.Bundle) {
	at := make(map[int64]bool)
	bits := uint64(4096)
	for _, e := range b.Entries {
		off := e.Offset - b.Start
		u.entries = append(u.entries, bundleEntry(e.ID, off, e.Size))
		bits |= uint64(off)
		if e.Size > 0 {
			u.share = u.share || at[off]
			at[off] = true
		}
	}
	u.align = bits & -bits
}

// changes reports whether the unit changes.
func (u *unit) changes(o *Options) bool {
	for i := range u.entries {
		if u.entries[i].drop || u.entries[i].replacement != nil {
			return true
		}
	}
	if u.pack != nil || u.fatbinary || u.loose {
		return false
	}
	return o.Compress && u.reader == nil || o.Decompress && u.reader != nil
}

// keep keeps the unit unchanged.
func (u *unit) keep() {
	u.size = u.stored.Len()
	u.parts = []content.Part{{Content: u.stored}}
	u.compressed = u.reader != nil
}

// rewrite computes the new content of the unit.
func (u *unit) rewrite(ctx context.Context, o *Options) (release func(), err error) {
	if !u.changes(o) {
		u.keep()
		return nil, nil
	}
	switch {
	case u.loose:
		return nil, nil // the object does this
	case u.fatbinary:
		return nil, u.rewriteFatbinary()
	case u.pack != nil:
		return nil, u.rewriteOffloadBinary()
	}
	plain, onlySizes := u.stored, o.DryRun && u.reader != nil
	if u.reader != nil && !onlySizes {
		raw, err := u.reader.Decode(ctx)
		if err != nil {
			return nil, err
		}
		release = raw.Release
		plain = content.Memory(raw.Bytes())
	}
	if u.reader != nil && o.Decompress {
		u.align = max(u.align, 4096)
	}
	layout, err := bundle.NewLayout(u.items(plain, onlySizes), bundle.Options{Align: u.align, ShareEqual: u.share && !onlySizes})
	if err != nil {
		return release, err
	}
	u.compressed = o.Compress || u.reader != nil && !o.Decompress
	if u.compressed && !o.DryRun {
		buffer, err := u.compress(ctx, layout, o)
		if err != nil {
			return release, err
		}
		u.parts, u.size = []content.Part{{Content: content.Memory(buffer)}}, int64(len(buffer))
		if release != nil {
			release()
		}
		return nil, nil
	}
	u.size = layout.Size
	if onlySizes {
		u.size = u.sizeOf(layout, o)
		u.parts = []content.Part{{}}
		return nil, nil
	}
	u.parts = layout.Parts
	return release, nil
}

// sizeOf returns an upper bound of the size of a compressed unit after the change, from the layout
// of its entries without contents.
func (u *unit) sizeOf(layout *bundle.Layout, o *Options) int64 {
	align := uint64(1)
	if o.Decompress {
		align = u.align
	}
	size := uint64(layout.Size)
	for _, e := range u.entries {
		switch {
		case e.drop:
		case e.replacement != nil:
			size = roundUp(size, align) + uint64(e.replacement.Content.Len())
		default:
			size = roundUp(size, align) + uint64(e.size)
		}
	}
	return int64(size)
}

// items returns the kept entries with their contents.
func (u *unit) items(plain content.Content, empty bool) []bundle.Item {
	var items []bundle.Item
	for i := range u.entries {
		e := &u.entries[i]
		if e.drop {
			continue
		}
		item := bundle.Item{ID: e.id}
		switch {
		case empty:
		case e.replacement != nil:
			item.Content = e.replacement.Content
		case e.size > 0:
			item.Content = plain.Slice(e.offset, e.size)
		}
		items = append(items, item)
	}
	return items
}

// compress returns the compressed bundle.
func (u *unit) compress(ctx context.Context, layout *bundle.Layout, o *Options) ([]byte, error) {
	version, method := 3, ccob.Zstd
	if u.reader != nil {
		h := u.reader.Header()
		version, method = h.Version, h.Method
	}
	var out content.Buffer
	if version == 1 || method == ccob.Zlib {
		err := compressOld(ctx, &out, layout, version, method)
		return out.Bytes(), err
	}
	_, err := ccob.Encode(ctx, &out, layout.Parts, ccob.EncodeOptions{Version: version, Level: ccob.LevelOf(o.Level), Budget: o.Budget, Done: o.Done})
	return out.Bytes(), err
}

// compressOld writes compressed bundles of the kinds that package ccob only reads:
// version 1, and those compressed with zlib.
func compressOld(ctx context.Context, out *content.Buffer, layout *bundle.Layout, version int, method ccob.Method) error {
	var plain content.Buffer
	if err := layout.Write(&plain); err != nil {
		return err
	}
	var data bytes.Buffer
	if method == ccob.Zlib {
		w := zlib.NewWriter(&data)
		if _, err := w.Write(plain.Bytes()); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	} else {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		if err != nil {
			return err
		}
		data.Write(encoder.EncodeAll(plain.Bytes(), nil))
	}
	h := ccob.NewHasher()
	if err := h.Add(ctx, content.Part{Content: content.Memory(plain.Bytes())}); err != nil {
		return err
	}
	head := append([]byte(ccob.Magic), byte(version), 0, byte(method), 0)
	size := int64(len(head)) + map[int]int64{1: 12, 2: 16, 3: 24}[version] + int64(data.Len())
	if version < 3 && (size >= 1<<32 || plain.Len() >= 1<<32) {
		return &ccob.LimitError{Size: max(size, int64(plain.Len())), Compressed: size > int64(plain.Len())}
	}
	switch version {
	case 1:
		head = binary.LittleEndian.AppendUint32(head, uint32(plain.Len()))
	case 2:
		head = binary.LittleEndian.AppendUint32(head, uint32(size))
		head = binary.LittleEndian.AppendUint32(head, uint32(plain.Len()))
	default:
		head = binary.LittleEndian.AppendUint64(head, uint64(size))
		head = binary.LittleEndian.AppendUint64(head, uint64(plain.Len()))
	}
	head = binary.LittleEndian.AppendUint64(head, h.Sum())
	if _, err := out.Write(head); err != nil {
		return err
	}
	_, err := out.Write(data.Bytes())
	return err
}

// rewriteOffloadBinary writes an offload binary with the kept images.
func (u *unit) rewriteOffloadBinary() error {
	var images []offloadbinary.Image
	var kept []int
	for i, img := range u.pack.Images {
		e := &u.entries[i]
		if e.drop {
			continue
		}
		if e.replacement != nil {
			img.Content = e.replacement.Content
		}
		images, kept = append(images, img), append(kept, i)
	}
	if len(images) == 0 {
		u.size = 0
		return nil
	}
	if u.pack.Version >= offloadbinary.CompressedVersion {
		return fmt.Errorf("offload binary of version %d: only versions before %d can be changed", u.pack.Version, offloadbinary.CompressedVersion)
	}
	var out partSink
	if err := offloadbinary.Write(&out, u.pack.Version, images); err != nil {
		return err
	}
	u.parts, u.size = out.parts, out.size
	u.imageAt = make(map[int]int64)
	for k, i := range kept {
		u.imageAt[i] = out.appended[k]
	}
	return nil
}

// partSink is a Sink that collects its input as parts.
type partSink struct {
	parts    []content.Part
	size     int64
	appended []int64 // offsets of the contents passed to Append
}

// Write implements io.Writer.
func (s *partSink) Write(p []byte) (int, error) {
	s.add(content.Memory(bytes.Clone(p)))
	return len(p), nil
}

// Append implements content.Sink.
func (s *partSink) Append(c content.Content) error {
	s.appended = append(s.appended, s.size)
	s.add(c)
	return nil
}

func (s *partSink) add(c content.Content) {
	if c.Len() > 0 {
		s.parts = append(s.parts, content.Part{Offset: s.size, Content: c})
	}
	s.size += c.Len()
}

// Zeros implements content.Sink.
func (s *partSink) Zeros(n int64) error {
	s.size += n
	return nil
}
