package images

import (
	"context"
	"slices"
	"sync"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

// Visit is a searched source whose contents decoded by the search are still in
// memory.
type Visit struct {
	Source *Source
	// Failed, if not nil, lets Load leave comparisons of hashes to the end of the search, to compute
	// several at once. It receives the error of such a comparison, the same that Load returns
	// otherwise. It is called before Open returns, possibly by another goroutine, after the visit.
	Failed func(error)

	search *search
}

// usedImages is a pool of memory for the images of bundles whose visit forgets them.
var usedImages = sync.Pool{New: func() any { return new([]DeviceImage) }}

// newImages returns memory for n images of a bundle. An archive may have very many, so
// it may be memory of images that a visit forgot.
func (s *search) newImages(n int) []DeviceImage {
	if s.opt.Visit == nil {
		return make([]DeviceImage, n)
	}
	list := usedImages.Get().(*[]DeviceImage)
	*list = slices.Grow((*list)[:0], n)[:n]
	s.lists = append(s.lists, list)
	return *list
}

// Forget releases the images of the source, to save memory. It sets Source.Images to
// nil. Neither the images nor v must be used afterwards; loaded contents stay valid.
func (v *Visit) Forget() {
	for _, list := range v.search.lists {
		clear(*list)
		usedImages.Put(list)
	}
	v.search.lists = nil
	v.Source.forgotten, v.Source.Images = len(v.Source.Images) > 0, nil
}

// Load makes the contents of images of the source readable, as File.Load does.
// They are valid until the file is closed.
func (v *Visit) Load(ctx context.Context, list ...*DeviceImage) ([]content.Content, error) {
	contents := make([]content.Content, len(list))
	size := int64(0)
	for i, image := range list {
		if at := &image.content; at.reader == nil && !at.host {
			contents[i] = at.plain
		} else {
			size += at.length()
		}
	}
	if size == 0 {
		return contents, nil
	}
	f := v.search.in
	memory, err := f.store.take(ctx, f, size)
	if isLimit(err) && v.search.decoded != nil {
		v.search.forgetDecoded()
		memory, err = f.store.take(ctx, f, size)
	}
	if err != nil {
		return nil, err
	}
	buffers := make([]content.Buffer, len(list))
	var copies []Copy
	for i, image := range list {
		at := &image.content
		if at.reader == nil && !at.host {
			continue
		}
		n := at.length()
		buffers[i] = content.BufferIn(memory[:0:n])
		memory = memory[n:]
		copies = append(copies, Copy{Image: image, To: &buffers[i]})
	}
	if err := v.copySource(ctx, copies); err != nil {
		return nil, err
	}
	for i, image := range list {
		if at := &image.content; at.reader != nil || at.host {
			contents[i] = content.Memory(buffers[i].Bytes())
		}
	}
	return contents, nil
}

// copySource is Copy for images of one source, most of which have one compressed
// bundle.
func (v *Visit) copySource(ctx context.Context, copies []Copy) error {
	first := copies[0].Image
	reader := first.content.reader
	ranges := make([]ccob.Range, len(copies))
	for i, c := range copies {
		at := &c.Image.content
		if at.reader != reader || at.host || reader == nil || at.search != nil {
			return v.search.in.Copy(ctx, copies)
		}
		ranges[i] = ccob.Range{Offset: at.offset, Size: at.size, W: c.To}
	}
	if v.Failed == nil {
		return first.wrap(reader.Extract(ctx, ranges))
	}
	return first.wrap(reader.ExtractUnchecked(ctx, ranges, func(err error) { v.Failed(v.Source.wrap(err)) }))
}

// visit calls Options.Visit with a source.
func (s *search) visit(ctx context.Context) error {
	if s.opt.Visit == nil {
		return nil
	}
	return s.opt.Visit(ctx, &Visit{Source: s.source, search: s})
}

// forget releases what was decoded for the visit of a source, except bytes whose hash must still be
// compared.
func (s *search) forget() {
	if s.batch != nil {
		s.batch.Next()
	}
	s.lists = nil
	s.forgetDecoded()
}

// takeBatch returns a batch for a search that visits sources, or nil. putBatch takes it back.
func (f *File) takeBatch(opt *Options) *ccob.Batch {
	if opt.Visit == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.batches)
	if n == 0 {
		return new(ccob.Batch)
	}
	b := f.batches[n-1]
	f.batches = f.batches[:n-1]
	return b
}

func (f *File) putBatch(b *ccob.Batch) {
	if b != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.batches = append(f.batches, b)
	}
}

// store is the memory for contents that visits load.
type store struct {
	mu     sync.Mutex
	free   [][]byte // rest of chunks that are not being filled
	size   int      // of the last chunk
	mapped [][]byte // to unmap

	reserved, used int64 // bytes
	reservations   []*budget.Reservation
}

// Sizes of the chunks of a store, in bytes.
const (
	firstChunk = 256 << 10
	lastChunk  = 8 << 20
)

// take returns n bytes with arbitrary content. It first reserves memory that is not
// reserved. It requests memory from the system without holding the lock, because that
// waits for the page faults of all other goroutines. It does not request large pages: they
// take a fifth of the time of small ones, but up to five times as long in a virtual machine
// that returns free large pages to its host.
func (s *store) take(ctx context.Context, f *File, n int64) ([]byte, error) {
	s.mu.Lock()
	s.used += n
	more := s.used - s.reserved
	var chunk []byte
	if last := len(s.free) - 1; last >= 0 {
		chunk, s.free = s.free[last], s.free[:last]
	}
	size := int64(min(max(2*s.size, firstChunk), lastChunk))
	if int64(len(chunk)) < n {
		s.size = int(size)
	}
	s.mu.Unlock()
	if more > 0 {
		if err := s.reserve(ctx, f, more); err != nil {
			s.mu.Lock()
			s.used -= n
			s.mu.Unlock()
			return nil, err
		}
	}
	var fresh []byte
	if int64(len(chunk)) < n {
		var err error
		if fresh, err = pages.Map(int(max(n, size))); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh != nil {
		s.mapped = append(s.mapped, fresh)
		if len(fresh)-int(n) < len(chunk) {
			s.free = append(s.free, chunk)
			return fresh[:n:n], nil
		}
		chunk = fresh // the rest is too small to use
	}
	if int64(len(chunk)) > n {
		s.free = append(s.free, chunk[n:])
	}
	return chunk[:n:n], nil
}

// reserve reserves n more bytes of the budget.
func (s *store) reserve(ctx context.Context, f *File, n int64) error {
	r, err := f.account.Reserve(ctx, n)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reservations = append(s.reservations, r)
	s.reserved += n
	return nil
}

// settle returns reserved memory that is not in use.
func (s *store) settle() {
	for i := len(s.reservations) - 1; i >= 0 && s.reserved > s.used; i-- {
		s.reserved -= s.reservations[i].GiveBack(s.reserved - s.used)
	}
}

func release(list []*budget.Reservation) {
	for _, r := range list {
		r.Release()
	}
}

// manyChunks is the number of chunks from which they are discarded in parallel.
const manyChunks = 8

// close releases the memory. Unmapping frees pages on one core, because it locks the
// process, so the pages of many chunks are freed before.
func (s *store) close() {
	release(s.reservations)
	if n := len(s.mapped); n >= manyChunks {
		var wg sync.WaitGroup
		for part := range slices.Chunk(s.mapped, (n+3)/4) {
			wg.Go(func() { // unguarded: it advises memory
				for _, chunk := range part {
					pages.Discard(chunk)
				}
			})
		}
		wg.Wait()
	}
	for _, chunk := range s.mapped {
		_ = pages.Unmap(chunk)
	}
	s.mapped, s.free = nil, nil
}
