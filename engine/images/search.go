package images

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Limits of the search, for files crafted to exhaust time or memory, beside those of package limits. The number of
// sections is limited by the size of the file.
const (
	// maxDepth is the largest nesting depth of archives and offload binaries.
	maxDepth = 32
	// maxEntries is the largest total number of entries in all bundles of a source
	// before the last one. Real files have some thousands.
	maxEntries = 1 << 18
)

// search finds device images in one file, or in one of several archive members
// searched in parallel.
type search struct {
	in     *File
	opt    Options
	memory *inflation
	left   int // remaining number of things to search

	sources []*Source
	source  *Source          // the last source, which is being searched
	batch   *ccob.Batch      // of bundles, for visits
	decoded []*decoded       // of the source, for its visit
	lists   []*[]DeviceImage // of the source, from usedImages
	tight   bool             // whether the budget is too small to keep decoded bundles
	hash    ccob.HashCheck   // of compressed bundles, unless an option overrides it

	pending int64 // bytes for images and bundles found that are not reserved yet
}

// Images and bundles found take memory. It is reserved in larger amounts.
const (
	// foundMemory is the memory for a bundle or an archive member, in bytes.
	foundMemory = 384
	// imageMemory is the additional memory for an image, including that of the
	// operations on it, in bytes, and textMemory the number of copies of its texts.
	imageMemory = 384
	textMemory  = 4
	// reserveFrom is the smallest amount to reserve, in bytes.
	reserveFrom = 1 << 20
)

// found counts the memory for images and bundles found, and reserves it.
func (s *search) found(ctx context.Context, memory int64) error {
	if s.pending += memory; s.pending < reserveFrom {
		return nil
	}
	n := s.pending
	s.pending = 0
	return s.in.reserve(ctx, n)
}

// inflation is the memory for compressed offload binaries.
type inflation struct {
	mu   sync.Mutex
	left int64 // reserved and not used
	need int64 // memory for all of them so far
}

// inflate implements offloadbinary.Options.Inflate.
func (i *inflation) inflate(size int64) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.need += size; i.need > limits.Inflated {
		return false, fmt.Errorf("compressed offload binaries inflate to more than %d bytes in total", limits.Inflated)
	}
	if size > i.left {
		return false, nil
	}
	i.left -= size
	return true, nil
}

// place is the location of a searched content.
type place struct {
	Place
	path  string // of the file on disk: the input, or a thin archive's member
	base  int64  // offset of the content in the file or member
	depth int
}

// fault adds the place to an error.
func (s *search) fault(at place, err error) error {
	if s.opt.Scope == Bundles && namesFile(err) {
		return err
	}
	return &PlaceError{Place: at.String(), Err: err}
}

// step counts the things searched.
func (s *search) step(ctx context.Context, at place) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.left--; s.left < 0 {
		return s.fault(at, fmt.Errorf("more than %d images and archive members", limits.Found))
	}
	if at.depth > maxDepth {
		return s.fault(at, fmt.Errorf("nested more than %d deep", maxDepth))
	}
	if err := s.found(ctx, foundMemory); err != nil {
		return s.fault(at, err)
	}
	return nil
}

// add adds an image to the current source.
func (s *search) add(ctx context.Context, e *DeviceImage, at place) error {
	e.File, e.Members, e.Section = at.File, at.Members, at.Section
	s.source.Images = append(s.source.Images, e)
	if err := s.found(ctx, imageMemory+textMemory*int64(len(e.ID)+len(at.Section))); err != nil {
		return s.fault(at, err)
	}
	return s.step(ctx, at)
}

// file searches a file or archive member.
func (s *search) file(ctx context.Context, c content.Content, at place) error {
	if err := s.step(ctx, at); err != nil {
		return err
	}
	format := object.Identify(c.Mapped(guard.Inside))
	archive := format == object.Archive || format == object.ThinArchive
	if s.opt.Scope == Bundles {
		if archive = s.opt.Type == bundle.ArchiveType && at.depth == 0; archive {
			format = object.Archive
		}
	}
	if archive {
		return s.archive(ctx, c, at)
	}
	s.source = &Source{Place: at.Place, Size: c.Len(), Format: format.String(), Archive: format == object.Archive || format == object.ThinArchive, format: format, release: s.opt.Release}
	s.sources = append(s.sources, s.source)
	defer s.forget()
	err := s.read(ctx, c, at)
	if err == nil {
		err = s.visit(ctx)
	}
	s.source.complete = err == nil
	return err
}

// read finds the images in the source, which has the content c.
func (s *search) read(ctx context.Context, c content.Content, at place) error {
	if s.opt.Scope == Bundles {
		return s.bundleFile(ctx, c, at)
	}
	format := s.source.format
	switch format {
	case object.OffloadBinary:
		return s.offloadBinaries(ctx, c, at)
	case object.ELFRelocatable, object.ELFExecutable, object.ELFSharedObject, object.COFFObject:
		return s.object(ctx, c, at)
	case object.Bitcode:
		return s.bitcode(ctx, c, at)
	}
	if s.opt.Scope != Everything {
		return nil
	}
	switch format {
	case object.PE:
		return s.object(ctx, c, at)
	case object.OffloadBundle, object.OffloadBundleZ:
		return s.bundles(ctx, c, at)
	case object.CUDAFatbinary:
		return s.fatbinaries(ctx, c, at)
	}
	return nil
}

// archive searches the members of an archive, in parallel.
func (s *search) archive(ctx context.Context, c content.Content, at place) error {
	archive, err := ar.Parse(c.Mapped(guard.Inside))
	if err != nil {
		return s.fault(at, err)
	}
	headers := &headReader{content: c, first: make([]byte, len(ccob.Magic)+4)}
	archive.ReadHeaders(headers)
	var members []ar.Member
	var fault error
	raw := int64(0) // total uncompressed size of compressed members
	for member, err := range archive.Members() {
		if err != nil {
			fault = s.fault(at, err)
			break
		}
		if s.opt.Visit != nil {
			raw += headers.rawSize(&member)
		}
		// Each takes a step, so more cannot be searched.
		if members = append(members, member); len(members) > s.left {
			break
		}
	}
	if err := s.expect(ctx, raw); err != nil {
		return err
	}
	batches := batchesOf(members)
	ahead, left := 4*s.opt.Budget.Cores(), s.left
	err = budget.Ordered(ctx, s.opt.Budget, len(batches), ahead, func(ctx context.Context, i int) (*looked, error) {
		inner := &search{in: s.in, opt: s.opt, memory: s.memory, left: left, hash: s.hash, batch: s.in.takeBatch(&s.opt)}
		defer s.in.putBatch(inner.batch)
		fault := guard.Contain(func() error {
			for k := range batches[i] {
				if err := inner.member(ctx, c, at, &batches[i][k]); err != nil {
					return err
				}
			}
			return nil
		})
		return &looked{sources: inner.sources, steps: left - inner.left, pending: inner.pending, fault: fault}, nil
	}, func(i int, f *looked) error {
		s.sources = append(s.sources, f.sources...)
		s.left -= f.steps
		s.pending += f.pending
		if f.fault == nil && s.left < 0 {
			last := batches[i][len(batches[i])-1]
			return s.step(ctx, at.member(last.Name))
		}
		if f.fault == nil && s.pending >= reserveFrom {
			return s.found(ctx, 0)
		}
		return f.fault
	})
	if err != nil {
		return err
	}
	return fault
}

// Members of up to batchSize bytes in all, at most batchLength of them, are searched
// by one unit of work: a unit costs more than the search of a small member.
const (
	batchSize   = 64 << 10
	batchLength = 64
)

// batchesOf divides members into batches that are searched in sequence.
func batchesOf(members []ar.Member) [][]ar.Member {
	var batches [][]ar.Member
	for len(members) > 0 {
		n, size := 1, len(members[0].Data)
		for n < min(len(members), batchLength) && size+len(members[n].Data) <= batchSize {
			size += len(members[n].Data)
			n++
		}
		batches, members = append(batches, members[:n]), members[n:]
	}
	return batches
}

// hashedMost is the largest total uncompressed size of the compressed members of an
// archive, in bytes, for which all hashes are compared. For bundles whose frames
// have checksums the hash is redundant, and it takes longer than decoding.
const hashedMost = 1 << 20

// expect prepares for visits of compressed members of the given total uncompressed
// size. It reserves the memory for loading their contents, if that is not too much,
// because an operation that holds memory does not wait for more.
func (s *search) expect(ctx context.Context, raw int64) error {
	if s.opt.Visit == nil {
		return nil
	}
	if raw > hashedMost {
		s.hash = ccob.HashProof
	}
	// Memory beyond half of the budget is reserved on demand, because most of it
	// may not be required.
	return s.in.store.reserve(ctx, s.in, min(raw, s.opt.Budget.Memory()/2))
}

// headReader reads the headers of the members of an archive, in order. All cores
// wait until they are known, so it avoids page faults: it reads headers that are far
// from each other from the file.
type headReader struct {
	content content.Content
	last    int64  // end of the last header in memory
	buffer  []byte // bytes read from the file
	at      int64  // their offset
	first   []byte // the first bytes of a member
}

const (
	// nearHeader is the distance of bytes that the system usually maps together.
	nearHeader = 64 << 10
	// headSize is the number of bytes to read: the header of a member, the first
	// bytes of its content, and a name between them.
	headSize = 512
)

// ReadAt implements io.ReaderAt.
func (r *headReader) ReadAt(p []byte, off int64) (int, error) {
	if n := int64(len(p)); off >= r.at && off+n <= r.at+int64(len(r.buffer)) {
		return copy(p, r.buffer[off-r.at:]), nil
	}
	if off-r.last > nearHeader {
		if r.buffer == nil {
			r.buffer = make([]byte, headSize)
		}
		r.buffer = r.buffer[:headSize]
		n, err := r.content.ReadAt(r.buffer, off)
		r.buffer, r.at = r.buffer[:n], off
		if n >= len(p) {
			return copy(p, r.buffer), nil
		}
		return 0, err
	}
	n := copy(p, r.content.Mapped(guard.Inside)[off:])
	r.last = off + int64(n)
	return n, nil
}

// rawSize returns the uncompressed size of a member that is a compressed bundle, 0
// for other members.
func (r *headReader) rawSize(m *ar.Member) int64 {
	if len(m.Data) < len(r.first) {
		return 0
	}
	if n, _ := r.ReadAt(r.first, m.DataOffset); n < len(r.first) || !ccob.Is(r.first) {
		return 0
	}
	h, err := ccob.Parse(m.Data)
	if err != nil {
		return 0
	}
	return h.RawSize
}

// looked is the result of searching consecutive members of an archive.
type looked struct {
	sources []*Source
	steps   int
	pending int64
	fault   error
}

// member returns the place of an archive member.
func (p place) member(name string) place {
	members := append(p.Members[:len(p.Members):len(p.Members)], name)
	return place{Place: Place{File: p.File, Members: members}, path: p.path, depth: p.depth + 1}
}

// member searches a member of the archive c.
func (s *search) member(ctx context.Context, c content.Content, archive place, m *ar.Member) error {
	at := archive.member(m.Name)
	if !m.Thin {
		return s.file(ctx, c.Slice(m.DataOffset, int64(len(m.Data))), at)
	}
	if err := s.step(ctx, at); err != nil {
		return err
	}
	at.path = ar.MemberPath(archive.path, m.Name)
	input, err := s.opt.OpenMember(at.path)
	if err != nil {
		var failure interface{ SetArchive(name string) }
		if errors.As(err, &failure) {
			failure.SetArchive(archive.path)
		}
		return s.fault(at, err)
	}
	defer func() { s.in.keep(input, hasImages(s.sources)) }()
	return s.file(ctx, input.All(), at)
}

// bitcode searches for the offload binaries that clang embedded.
func (s *search) bitcode(ctx context.Context, c content.Content, at place) error {
	objects, err := bitcode.EmbeddedObjects(c.Mapped(guard.Inside))
	if err != nil {
		return s.fault(at, err)
	}
	for _, data := range objects {
		if err := s.offloading(ctx, content.Memory(data), at); err != nil {
			return err
		}
	}
	return nil
}
