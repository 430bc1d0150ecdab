package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/target"
)

// ReadOptions say how bundles are read.
type ReadOptions struct {
	// Lenient takes compressed bundles whose hash or sizes are wrong, as LLVM does.
	Lenient bool
	// Verify checks the hash of every compressed bundle that is unbundled, however
	// long that takes.
	Verify bool
	// MaxSize is the largest size of a compressed bundle when uncompressed, in
	// bytes; 0 means any that the compressed data makes possible.
	MaxSize int64
	// Stats, if not nil, is told of every bundle before it is used. Compressed
	// bundles are then decoded in full to check their hash.
	Stats func(ReadStats)
}

// ReadStats describes a bundle that is read.
type ReadStats struct {
	// Header is that of a compressed bundle, nil for anything else.
	Header *ccob.Header
	Size   int64  // bytes of the bundle as it is stored
	Hash   uint64 // of the uncompressed bytes
	Took   time.Duration
}

// storedEntry is an entry of a bundle that was read.
type storedEntry struct {
	ListedEntry
	target target.ID
	bad    error // why the ID is none

	// Where the content is: in memory or a mapped file, or in a compressed bundle.
	content files.Content
	reader  *ccob.Reader
	// whole tells that the content is the object that the entry is a section of,
	// without the sections of entries.
	whole bool
}

// contents is what a file holds.
type contents struct {
	name    string        // of the file
	entries []storedEntry // in the order in which LLVM's tools visit them
	bundles int           // how many bundles the entries are from; 0 if the file is none
	file    storedEntry   // the file itself, uncompressed, if it is no bundle
	decoded bool          // whether contents are in memory that is freed behind fn
}

// withContents calls fn with what data, a file of that name, holds as a file of
// type t. What fn gets is valid until it returns. It does not read more than it must.
func (s *Session) withContents(ctx context.Context, name string, data files.Content, t FileType, opt ReadOptions, fn func(context.Context, *contents) error) error {
	return files.Guard(func() error {
		extents, err := findBundles(data.Bytes(), t, opt)
		if err != nil {
			return nameError(name, err)
		}
		if err := t.check(); err != nil {
			return err
		}
		r := &contentReader{session: s, data: data, fileType: t, opt: opt, c: &contents{name: name}}
		if len(extents) == 0 {
			if opt.Stats != nil && data.Len() >= 8 {
				opt.Stats(ReadStats{Size: data.Len()})
			}
			if err := r.file(data, 0); err != nil {
				return nameError(name, err)
			}
			return fn(ctx, r.c)
		}
		return r.bundles(ctx, extents, fn)
	})
}

// findBundles returns where the bundles lie in a file that begins with one.
// Offsets in errors count from the beginning of the file.
func findBundles(data []byte, t FileType, opt ReadOptions) ([]ccob.Extent, error) {
	rest := data
	if _, text := t.comment(); !text {
		rest = bytes.TrimLeft(data, "\x00")
	}
	switch {
	case opt.Lenient && ccob.Is(data):
		// Where it ends is not to be believed.
		return []ccob.Extent{{End: int64(len(data)), Header: new(ccob.Header)}}, nil
	case ccob.Is(rest):
	case t.check() != nil, !bundle.Is(rest):
		return nil, nil
	}
	if _, text := t.comment(); text && !ccob.Is(rest) {
		return nil, nil
	}
	// The commonest errors, without the offset 0 that Walk would put before them.
	if bundle.Is(data) {
		if _, err := bundle.Parse(data); err != nil {
			return nil, err
		}
	}
	if ccob.Is(data) {
		if _, err := ccob.Parse(data); err != nil {
			return nil, err
		}
	}
	var extents []ccob.Extent
	for e, err := range ccob.Walk(data, plainEnd) {
		if err != nil {
			return nil, err
		}
		extents = append(extents, e)
	}
	return extents, nil
}

// plainEnd returns where the plain bundle that data begins with ends.
func plainEnd(data []byte) (int64, error) {
	b, err := bundle.Parse(data)
	if err != nil {
		return 0, err
	}
	return b.End, nil
}

// contentReader gathers contents.
type contentReader struct {
	session  *Session
	data     files.Content
	fileType FileType
	opt      ReadOptions
	c        *contents
}

// maxStored is how many entries the bundles in a file may have together, for files
// made to fill the memory. Real ones have some thousands.
const maxStored = 1 << 18

// bundles reads what is in each of the extents.
func (r *contentReader) bundles(ctx context.Context, extents []ccob.Extent, fn func(context.Context, *contents) error) error {
	var readers []*ccob.Reader
	memory := int64(0)
	for _, e := range extents {
		if e.Header == nil {
			readers = append(readers, nil)
			continue
		}
		reader, err := r.open(ctx, e)
		if err != nil {
			return r.compressedError(e, err)
		}
		inMemory, err := r.mustDecode(ctx, reader)
		if err != nil {
			return r.compressedError(e, err)
		}
		if inMemory {
			memory += reader.RawSize()
		}
		readers = append(readers, reader)
	}
	return r.session.Budget.WithBytes(ctx, memory, func(ctx context.Context) error {
		for i, e := range extents {
			if len(r.c.entries) > maxStored {
				return nameError(r.c.name, fmt.Errorf("byte 0x%x: more than %d entries before this bundle", e.Offset, maxStored))
			}
			if readers[i] == nil {
				if r.opt.Stats != nil {
					r.opt.Stats(ReadStats{Size: e.End - e.Offset})
				}
				if err := r.file(r.data.Slice(e.Offset, e.End-e.Offset), e.Offset); err != nil {
					return nameError(r.c.name, err)
				}
				continue
			}
			release, err := r.compressed(ctx, readers[i])
			defer release()
			if err != nil {
				return r.compressedError(e, err)
			}
		}
		return fn(ctx, r.c)
	})
}

// compressedError says which of several bundles an error is about.
func (r *contentReader) compressedError(e ccob.Extent, err error) error {
	if e.Offset != 0 {
		err = fmt.Errorf("compressed bundle at byte 0x%x: %w", e.Offset, err)
	}
	return nameError(r.c.name, err)
}

// open prepares to decode a compressed bundle. Its content is checked when it is
// used, see ccob.HashAuto.
func (r *contentReader) open(ctx context.Context, e ccob.Extent) (*ccob.Reader, error) {
	data := r.data.Bytes()[e.Offset:e.End]
	opt := ccob.Options{Lenient: r.opt.Lenient, MaxSize: r.opt.MaxSize, Budget: r.session.Budget}
	reader, err := ccob.Open(data, opt)
	if err != nil {
		return nil, err
	}
	if r.opt.Stats != nil {
		stats, err := readStats(ctx, r.session.Budget, data, opt)
		if err != nil {
			return nil, err
		}
		r.opt.Stats(stats)
	}
	if !r.opt.Lenient && (r.opt.Verify || r.opt.Stats != nil) {
		opt.Hash = ccob.HashFull
		return ccob.Open(data, opt)
	}
	return reader, nil
}

// readStats decodes a compressed bundle to tell of it.
func readStats(ctx context.Context, budget *files.Budget, data []byte, opt ccob.Options) (ReadStats, error) {
	opt.Hash = ccob.HashNone
	reader, err := ccob.Open(data, opt)
	if err != nil {
		return ReadStats{}, err
	}
	header := reader.Header()
	stats := ReadStats{Header: &header, Size: int64(len(data))}
	err = budget.WithBytes(ctx, reader.RawSize(), func(ctx context.Context) error {
		start := time.Now()
		raw, err := reader.Decode(ctx)
		if err != nil {
			return err
		}
		defer raw.Release()
		stats.Took = time.Since(start)
		h := ccob.NewHasher()
		_, err = h.Write(raw.Bytes())
		stats.Hash = h.Sum()
		return err
	})
	return stats, err
}

// headerPrefix is how much of a compressed bundle is decoded to find its entries.
const headerPrefix = 4 << 10

// mustDecode tells whether what is in a compressed bundle can only be read when all
// of it is decoded: it is when it is not a binary bundle.
func (r *contentReader) mustDecode(ctx context.Context, reader *ccob.Reader) (bool, error) {
	if _, text := r.fileType.comment(); text {
		return true, nil
	}
	prefix, err := reader.Prefix(ctx, headerPrefix)
	mayBeObject := r.fileType == ObjectType || r.fileType == ArchiveType
	return err == nil && !bundle.Is(prefix) && mayBeObject, err
}

// compressed reads the entries of a compressed bundle. What it returns frees the
// memory that they need.
func (r *contentReader) compressed(ctx context.Context, reader *ccob.Reader) (release func(), err error) {
	release = func() {}
	decode, err := r.mustDecode(ctx, reader)
	if err != nil {
		return release, err
	}
	if decode {
		raw, err := reader.Decode(ctx)
		if err != nil {
			return release, err
		}
		r.c.decoded = true
		return raw.Release, r.file(files.FromMemory("", raw.Bytes()).All(), 0)
	}
	b, err := readHeader(ctx, reader)
	if err != nil {
		return release, err
	}
	if b == nil {
		r.c.file = storedEntry{ListedEntry: ListedEntry{Size: reader.RawSize()}, reader: reader}
		return release, nil
	}
	r.binary(b, 0, func(e bundle.Entry, s *storedEntry) {
		s.Compressed, s.reader = true, reader
	})
	return release, nil
}

// maxHeader bounds the header of a bundle in a compressed one, which takes memory
// to decode.
const maxHeader = 16 << 20

// readHeader returns the header of the binary bundle in a compressed one, or nil
// if that is none. It decodes no more than that takes.
func readHeader(ctx context.Context, reader *ccob.Reader) (*bundle.Bundle, error) {
	for n := int64(headerPrefix); ; n *= 8 {
		prefix, err := reader.Prefix(ctx, n)
		if err != nil {
			return nil, err
		}
		if !bundle.Is(prefix) {
			return nil, nil
		}
		b, err := bundle.ParsePrefix(prefix, reader.RawSize())
		if !errors.Is(err, bundle.ErrPrefix) {
			return b, err
		}
		if n >= maxHeader {
			return nil, fmt.Errorf("the header of the uncompressed bundle has more than %d bytes", maxHeader)
		}
	}
}

// file reads the entries of a file, or of a plain bundle at byte base of it.
func (r *contentReader) file(c files.Content, base int64) error {
	data := c.Bytes()
	r.c.file = storedEntry{content: c}
	if comment, text := r.fileType.comment(); text {
		entries, err := bundle.ParseText(data, comment)
		if err != nil || len(entries) == 0 {
			return err
		}
		r.c.bundles++
		for _, e := range entries {
			s := r.add(e.ID, e.Offset, e.Size)
			s.content = c.Slice(e.Offset, e.Size)
			// A file that went through an editor may have CR LF.
			s.target, s.bad = target.Parse(strings.TrimSuffix(e.ID, "\r"))
		}
		return nil
	}
	if bundle.Is(data) {
		b, err := bundle.Parse(data)
		if err != nil {
			return err
		}
		r.binary(b, base, func(e bundle.Entry, s *storedEntry) { s.content = c.Slice(e.Offset, e.Size) })
		return nil
	}
	if (r.fileType == ObjectType || r.fileType == ArchiveType) && object.IsObject(data) {
		return r.sections(c)
	}
	return nil
}

// binary adds the entries of the binary bundle at byte base, in the order of
// LLVM's hash table.
func (r *contentReader) binary(b *bundle.Bundle, base int64, place func(bundle.Entry, *storedEntry)) {
	r.c.bundles++
	ids := make([]string, len(b.Entries))
	for i, e := range b.Entries {
		ids[i] = e.ID
	}
	for _, i := range target.Order(ids) {
		place(b.Entries[i], r.add(ids[i], base+b.Entries[i].Offset, b.Entries[i].Size))
	}
}

// sections adds the entries that are sections of an object.
func (r *contentReader) sections(c files.Content) error {
	f, err := object.Parse(c.Bytes())
	if err != nil {
		return err
	}
	found := false
	for i := range f.Sections {
		section := &f.Sections[i]
		if !isEntrySection(section.Name) {
			continue
		}
		if !found {
			found = true
			r.c.bundles++
		}
		data, err := f.Data(i)
		if err != nil {
			return fmt.Errorf("section %s: %w", section.Name, err)
		}
		e := r.add(strings.TrimPrefix(string(section.Name), bundle.SectionPrefix), int64(section.Offset), int64(len(data)))
		e.content = c.Slice(0, 0)
		if len(data) > 0 {
			e.content = c.Slice(int64(section.Offset), int64(len(data)))
		}
		if e.target.Kind == target.Host && len(data) == 1 && data[0] == 0 {
			e.whole, e.content = true, c
		}
	}
	return nil
}

// isEntrySection tells whether a section of that name holds an entry.
func isEntrySection(name []byte) bool { return bundle.Is(name) }

// add adds an entry to what was found.
func (r *contentReader) add(id string, offset, size int64) *storedEntry {
	e := storedEntry{ListedEntry: ListedEntry{ID: id, Bundle: r.c.bundles, Offset: offset, Size: size}}
	e.target, e.bad = target.Parse(id)
	r.c.entries = append(r.c.entries, e)
	return &r.c.entries[len(r.c.entries)-1]
}

// writeEntries writes entries of the named file to outputs; outputs[i] gets
// entries[i], or stays empty if that is nil.
func (s *Session) writeEntries(ctx context.Context, name string, entries []*storedEntry, outputs []files.Sink) error {
	ranges := make(map[*ccob.Reader][]ccob.Range)
	var readers []*ccob.Reader // in order, for errors that do not depend on chance
	var direct []int
	for i, e := range entries {
		if e != nil {
			s.Meter.expect(e.Size)
		}
		switch {
		case e == nil:
		case e.reader == nil:
			direct = append(direct, i)
		default:
			if ranges[e.reader] == nil {
				readers = append(readers, e.reader)
			}
			ranges[e.reader] = append(ranges[e.reader], ccob.Range{Offset: e.Offset, Size: e.Size, W: s.Meter.watch(outputs[i])})
		}
	}
	if err := s.Budget.Each(ctx, len(direct), func(_ context.Context, k int) error {
		e, output := entries[direct[k]], outputs[direct[k]]
		defer s.Meter.add(e.Size)
		if e.whole {
			return nameError(name, object.RemoveSections(e.content, isEntrySection, output))
		}
		return output.Append(e.content)
	}); err != nil {
		return err
	}
	for _, reader := range readers {
		if err := reader.Extract(ctx, ranges[reader]); err != nil {
			return nameError(name, err)
		}
	}
	return nil
}
