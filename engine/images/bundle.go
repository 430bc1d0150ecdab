package images

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// fileType returns the type of the bundles to search for.
func (s *search) fileType() bundle.FileType {
	if s.opt.Type == "" {
		return bundle.ObjectType
	}
	return s.opt.Type
}

// bundleFile reads a file of a type of clang-offload-bundler.
func (s *search) bundleFile(ctx context.Context, c content.Content, at place) error {
	extents, err := s.extents(c.Mapped(guard.Inside))
	if err != nil {
		return s.fault(at, err)
	}
	if err := s.fileType().Check(); err != nil {
		return err
	}
	for _, e := range extents {
		if len(s.source.Images) > maxEntries {
			return s.fault(at, fmt.Errorf("byte 0x%x: more than %d entries before this bundle", e.Offset, maxEntries))
		}
		if err := s.bundle(ctx, c, e, at); err != nil {
			return err
		}
	}
	if len(extents) == 0 {
		if err := s.unpacked(ctx, c, nil, at); err != nil {
			return s.fault(at, err)
		}
	}
	return nil
}

// extents returns the extents of the bundles in a file that begins with one.
// Offsets in errors are relative to the file.
func (s *search) extents(data []byte) ([]ccob.Extent, error) {
	_, text := s.fileType().Comment()
	rest := data
	if !text {
		rest = bytes.TrimLeft(data, "\x00")
	}
	switch {
	case s.opt.Lenient && ccob.Is(data):
		// Its stated end is not reliable.
		return []ccob.Extent{{End: int64(len(data)), Header: new(ccob.Header)}}, nil
	case ccob.Is(rest):
	case text, s.fileType().Check() != nil, !bundle.Is(rest):
		return nil, nil
	}
	var extents []ccob.Extent
	for e, err := range ccob.Walk(data, bundle.End) {
		if err != nil {
			if len(extents) == 0 {
				err = cmp.Or(faultAtStart(data), err)
			}
			return nil, err
		}
		extents = append(extents, e)
	}
	return extents, nil
}

// faultAtStart returns the fault in the header of the bundle that data begins with,
// without the offset 0 that Walk adds.
func faultAtStart(data []byte) error {
	var err error
	switch {
	case bundle.Is(data):
		_, err = bundle.Parse(data)
	case ccob.Is(data):
		_, err = ccob.Parse(data)
	}
	return err
}

// bundles reads adjacent bundles, plain and compressed.
func (s *search) bundles(ctx context.Context, c content.Content, at place) error {
	for e, err := range ccob.Walk(c.Mapped(guard.Inside), bundle.End) {
		if err != nil {
			return s.fault(at, err)
		}
		if err := s.bundle(ctx, c, e, at); err != nil {
			return err
		}
	}
	return nil
}

// bundleAt adds the entries of the bundle that begins at an offset of c, before end.
func (s *search) bundleAt(ctx context.Context, c content.Content, offset, end int64, at place) error {
	e, err := ccob.ExtentAt(c.Mapped(guard.Inside)[:end], offset, bundle.End)
	if err != nil {
		return s.fault(at, err)
	}
	return s.bundle(ctx, c, e, at)
}

// bundle adds the entries of one of the bundles in c.
func (s *search) bundle(ctx context.Context, c content.Content, e ccob.Extent, at place) error {
	if err := s.step(ctx, at); err != nil {
		return err
	}
	if e.Header != nil {
		err := s.compressed(ctx, c, e, at)
		if err != nil && !namesFile(err) {
			// The offset is redundant for a file that begins with its only bundle.
			if e.Offset != 0 || s.opt.Scope != Bundles {
				err = fmt.Errorf("compressed bundle at byte 0x%x: %w", e.Offset, err)
			}
			err = s.fault(at, err)
		}
		return err
	}
	s.source.Bundles = append(s.source.Bundles, Bundle{Size: e.End - e.Offset})
	b, err := bundle.ParseAt(c.Mapped(guard.Inside), e.Offset)
	if err != nil {
		return s.fault(at, err)
	}
	return s.entries(ctx, b, at, func(stored bundle.Entry, image *DeviceImage) {
		image.Form, image.Container = FormBundle, e.Offset
		image.Offset = at.base + stored.Offset
		image.content.plain = c.Slice(stored.Offset, stored.Size)
		if s.opt.Scope != Bundles { // not required there, and would read a page of each entry
			image.Format = offloadbinary.KindOfData(image.content.plain.Mapped(guard.Inside))
		}
	})
}

// entries adds the entries of a binary bundle.
func (s *search) entries(ctx context.Context, b *bundle.Bundle, at place, put func(bundle.Entry, *DeviceImage)) error {
	number := s.nextBundle()
	list := s.newImages(len(b.Entries))
	s.source.Images = slices.Grow(s.source.Images, len(list))
	for i, stored := range b.Entries {
		e := &list[i]
		e.Size, e.binary = stored.Size, true
		e.take(s.in.ids.describe(stored.ID))
		e.Bundle, e.Index = number, i
		put(stored, e)
		if err := s.add(ctx, e, at); err != nil {
			return err
		}
	}
	return nil
}

// nextBundle returns the number of the bundle whose entries are next.
func (s *search) nextBundle() int {
	s.source.NumBundles++
	return s.source.NumBundles
}

// compressed adds the entries of a compressed bundle.
func (s *search) compressed(ctx context.Context, c content.Content, e ccob.Extent, at place) error {
	reader, err := s.open(ctx, c.Mapped(guard.Inside)[e.Offset:e.End])
	if err != nil {
		return err
	}
	var b *bundle.Bundle
	_, text := s.fileType().Comment()
	if text = text && s.opt.Scope == Bundles; !text {
		err = s.withRoom(func() (err error) {
			b, err = bundle.ReadHeader(reader.RawSize(), func(n int64) ([]byte, error) { return reader.Prefix(ctx, n) })
			return err
		})
		if err != nil {
			return err
		}
	}
	switch {
	case b != nil:
		if at.depth == 0 { // Copy and Load decode this bundle, and require memory for that
			s.in.forget()
			s.tight = true
		}
		return s.entries(ctx, b, at, func(stored bundle.Entry, image *DeviceImage) {
			image.Form, image.Container, image.Offset = FormCompressed, e.Offset, stored.Offset
			image.content = origin{reader: reader, offset: stored.Offset, size: stored.Size}
		})
	case s.opt.Scope != Bundles:
		return errors.New("its uncompressed contents are not a bundle")
	case !text && s.fileType() != bundle.ObjectType && s.fileType() != bundle.ArchiveType:
		s.setSelf(origin{reader: reader, size: reader.RawSize()}, at)
		return nil
	}
	// The format is unknown before everything is decoded.
	d, err := s.decode(ctx, reader, at)
	if err != nil {
		return err
	}
	if !d.kept {
		defer d.forget()
	}
	at.base = e.Offset
	return s.unpacked(ctx, content.Memory(d.raw.Bytes()), d, at)
}

// unpacked reads a file or the content of a compressed bundle that does not
// have the header of a bundle: a text bundle, a bundled object, or neither.
func (s *search) unpacked(ctx context.Context, c content.Content, d *decoded, at place) error {
	form, container := FormCompressed, at.base
	part := func(offset, size int64) origin {
		return origin{reader: d.reader, search: d, offset: offset, size: size}
	}
	if d == nil {
		form, container = FormSection, 0
		part = func(offset, size int64) origin { return origin{plain: c.Slice(offset, size)} }
	}
	s.setSelf(part(0, c.Len()), at)
	add := func(e *DeviceImage, index int) error {
		e.Form, e.Container, e.Index, e.Bundle = form, container, index, s.source.NumBundles
		return s.add(ctx, e, at)
	}
	if comment, text := s.fileType().Comment(); text {
		if d == nil {
			form = FormText
		}
		return s.textEntries(c, comment, part, add)
	}
	switch s.fileType() {
	case bundle.ObjectType, bundle.ArchiveType:
		if object.IsObject(c.Mapped(guard.Inside)) {
			return s.sectionEntries(c, part, add)
		}
	}
	return nil
}

// textEntries adds the entries of a text bundle.
func (s *search) textEntries(c content.Content, comment string, part func(offset, size int64) origin, add func(*DeviceImage, int) error) error {
	entries, err := bundle.ParseText(c.Mapped(guard.Inside), comment)
	if err != nil || len(entries) == 0 {
		return err
	}
	s.nextBundle()
	for i, stored := range entries {
		// An editor may have changed line ends to CR LF, also that before the END line.
		id, changed := strings.CutSuffix(stored.ID, "\r")
		if end := stored.Offset + stored.Size; changed && stored.Size > 0 && c.Mapped(guard.Inside)[end-1] == '\r' {
			stored.Size--
		}
		e := &DeviceImage{Size: stored.Size, content: part(stored.Offset, stored.Size)}
		e.describe(id)
		e.ID, e.Offset, e.endID = stored.ID, stored.Offset, stored.EndID
		if err := add(e, i); err != nil {
			return err
		}
	}
	return nil
}

// sectionEntries adds the entries stored as sections of an object.
func (s *search) sectionEntries(c content.Content, part func(offset, size int64) origin, add func(*DeviceImage, int) error) error {
	f, err := object.Parse(c.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	index := 0
	for i := range f.Sections {
		section := &f.Sections[i]
		if !isEntrySection(section.Name) {
			continue
		}
		if index == 0 {
			s.nextBundle()
		}
		data, err := f.Data(i)
		if err != nil {
			return fmt.Errorf("section %s: %w", section.Name, err)
		}
		e := &DeviceImage{Size: int64(len(data)), Format: offloadbinary.KindOfData(data)}
		e.describe(strings.TrimPrefix(string(section.Name), bundle.SectionPrefix))
		e.Offset = int64(section.Offset)
		if len(data) > 0 {
			e.content = part(e.Offset, e.Size)
		}
		if e.BadID == nil && e.Target.Kind == target.Host && len(data) == 1 && data[0] == 0 {
			e.content = part(0, c.Len())
			e.content.host = true
		}
		if err := add(e, index); err != nil {
			return err
		}
		index++
	}
	return nil
}

// isEntrySection reports whether a section of that name holds an entry.
func isEntrySection(name []byte) bool { return bundle.Is(name) }

// setSelf adds the source itself as an image.
func (s *search) setSelf(c origin, at place) {
	self := &DeviceImage{Place: at.Place, Offload: "none", content: c}
	self.Size = c.size
	if c.reader == nil {
		self.Size = c.plain.Len()
	}
	self.Form = FormFile
	s.source.Self = self
}

// open prepares to decode a compressed bundle. Its contents are checked when they
// are used, see ccob.HashAuto.
func (s *search) open(ctx context.Context, data []byte) (*ccob.Reader, error) {
	opt := ccob.Options{Lenient: s.opt.Lenient, Hash: s.hash, Batch: s.batch, MaxSize: s.opt.MaxSize, Budget: s.opt.Budget}
	reader, err := ccob.Open(data, opt)
	if err != nil {
		return nil, err
	}
	header := reader.Header()
	found := Bundle{Size: int64(len(data)), Header: &header}
	if s.opt.Measure {
		if err := s.withRoom(func() error { return found.measure(ctx, data, opt) }); err != nil {
			return nil, err
		}
	}
	s.source.Bundles = append(s.source.Bundles, found)
	if !s.opt.Lenient && (s.opt.Verify || s.opt.Measure) {
		opt.Hash = ccob.HashFull
		if reader, err = ccob.Open(data, opt); err != nil {
			return nil, err
		}
	}
	return reader, nil
}

// measure decodes a compressed bundle to compute its hash.
func (b *Bundle) measure(ctx context.Context, data []byte, opt ccob.Options) error {
	opt.Hash = ccob.HashNone
	reader, err := ccob.Open(data, opt)
	if err != nil {
		return err
	}
	start := time.Now()
	h := ccob.NewHasher()
	if err := reader.Extract(ctx, []ccob.Range{{Size: reader.RawSize(), W: h}}); err != nil {
		return err
	}
	b.Duration, b.Hash = time.Since(start), h.Sum()
	return nil
}
