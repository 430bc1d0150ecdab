package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// maxKernels is the largest number of kernels read from a file, a limit for
// files that contain the same image many times. The largest libraries have
// about ten thousand.
const maxKernels = 1 << 20

// Describe describes the device images in an open file, and always their kernels, without demangled names.
func (s *Session) Describe(ctx context.Context, f *images.File, opt InspectOptions) (_ *DeviceFile, err error) {
	defer guard.Into(&err)()
	file, code, err := s.inspect(ctx, f)
	if err != nil {
		return nil, err
	}
	file.Images = make([]kernels.Image, len(file.Found))
	d := describer{session: s, open: f, file: file, opt: opt, left: maxKernels}
	if code != nil && len(code.entries) > 0 {
		err = d.describeKpack(ctx, code)
	} else {
		err = d.describe(ctx)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// describer describes the images of a file.
type describer struct {
	session *Session
	open    *images.File
	file    *DeviceFile
	opt     InspectOptions
	left    int // the number of kernels that may still be read
}

// describe describes all images. Images at the same place in the file are read
// once.
func (d *describer) describe(ctx context.Context) error {
	var plain, same []int
	packed := make(map[*ccob.Reader][]int)
	var readers []*ccob.Reader // in order, so that the first error is always the same
	first := make(map[images.Extent]int)
	room := make(map[*ccob.Reader]int64)
	for i, e := range d.file.Found {
		img := &d.file.Images[i]
		*img = kernels.Image{Index: i, Members: e.Members, Section: e.Section, ID: e.ID, Size: e.Size, Arch: e.Arch, Host: e.Offload == "host"}
		if e.Size == 0 {
			continue
		}
		at := e.Extent()
		if _, ok := first[at]; ok {
			same = append(same, i)
			continue
		}
		first[at] = i
		// Limit how much entries of a bundle overlap. Otherwise a small file could
		// contain very many images.
		const overlap = 4
		most := overlap*d.file.Size + limits.Inflated
		if at.Bundle != nil {
			most = overlap * at.Bundle.RawSize()
		}
		if room[at.Bundle] += e.Size; room[at.Bundle] > most {
			return d.wrap(i, errors.New("the images of the file overlap"))
		}
		if at.Bundle == nil {
			plain = append(plain, i)
			continue
		}
		if packed[at.Bundle] == nil {
			readers = append(readers, at.Bundle)
		}
		packed[at.Bundle] = append(packed[at.Bundle], i)
	}
	err := d.session.budget.Each(ctx, len(plain), func(_ context.Context, k int) error {
		content, _ := d.file.Found[plain[k]].Plain()
		return d.image(plain[k], content.Mapped(guard.Inside))
	})
	if err != nil {
		return err
	}
	for _, reader := range readers {
		if err := d.decode(ctx, reader, packed[reader]); err != nil {
			return err
		}
	}
	return d.copies(same, first)
}

// image describes image i.
func (d *describer) image(i int, data []byte) error {
	img := &d.file.Images[i]
	if d.opt.Hash {
		img.Hash = xxhash.Sum64(data)
	}
	if err := img.Describe(data, img.Arch); err != nil {
		return d.wrap(i, err)
	}
	if d.opt.Sources {
		img.ReadSources(data)
	}
	if d.opt.Visit != nil {
		return d.opt.Visit(i, data)
	}
	return nil
}

// copies describes images that share the bytes of other images, and counts
// their kernels.
func (d *describer) copies(same []int, first map[images.Extent]int) error {
	count := func(i int) error {
		if d.left -= len(d.file.Images[i].Kernels); d.left < 0 {
			return d.wrap(i, fmt.Errorf("found more than %d kernels in the file, expected fewer", maxKernels))
		}
		return nil
	}
	for i := range d.file.Images {
		if err := count(i); err != nil {
			return err
		}
	}
	for _, i := range same {
		img, from := &d.file.Images[i], &d.file.Images[first[d.file.Found[i].Extent()]]
		if d.left < len(from.Kernels) {
			return count(first[d.file.Found[i].Extent()])
		}
		img.Copy(from)
		img.Hash = from.Hash
		if err := count(i); err != nil {
			return err
		}
	}
	return nil
}

// wrap adds the image to an error. Offsets in errors are relative to the image.
func (d *describer) wrap(i int, err error) error {
	e := d.file.Found[i]
	what := cmp.Or(e.ID, e.Arch)
	if what != "" {
		what = fmt.Sprintf(" (%q)", what)
	}
	return &images.PlaceError{Place: e.Place.String(), Err: fmt.Errorf("image %d%s: %w", i, what, err)}
}

// decode describes images of a compressed bundle. Its decoders run in parallel, and each
// holds an image in memory. If that takes too much memory, they run in sequence. Overlapping
// images, which only damaged or hostile files have, are in memory at the same time.
func (d *describer) decode(ctx context.Context, reader *ccob.Reader, numbers []int) error {
	buffers := new(spares)
	copies := make([]images.Copy, len(numbers))
	sinks := make([]*imageSink, len(numbers))
	memory, largest := int64(0), int64(0)
	for k, i := range numbers {
		e := d.file.Found[i]
		sinks[k] = &imageSink{size: e.Size, spares: buffers, done: func(data []byte) error { return d.image(i, data) }}
		copies[k] = images.Copy{Image: e, To: sinks[k]}
		largest = max(largest, e.Size)
		memory += e.Size
	}
	if !d.overlap(numbers) {
		buffers.size = largest
		memory = min(memory, largest*int64(d.session.budget.Cores()))
		// The windows of the decoders take the same amount again.
		if memory > d.session.budget.Memory()/2 {
			memory = largest
			ctx = budget.Sequential(ctx)
		}
	}
	described := false
	err := d.session.budget.WithBytes(ctx, memory, func(ctx context.Context) error {
		described = true
		err := d.open.Copy(ctx, copies)
		// Errors of images take precedence, in the order of the images, so that the
		// reported error is always the same.
		for _, s := range sinks {
			if s.err != nil {
				return s.err
			}
		}
		if err != nil {
			e := d.file.Found[numbers[0]]
			if placed, ok := errors.AsType[*images.PlaceError](err); ok {
				err = placed.Err
			}
			return &images.PlaceError{Place: e.Place.String(), Err: fmt.Errorf("compressed bundle at byte 0x%x: %w", e.Container, err)}
		}
		return nil
	})
	if err != nil && !described {
		return d.wrap(numbers[0], err)
	}
	return err
}

// overlap reports whether images of a compressed bundle overlap.
func (d *describer) overlap(numbers []int) bool {
	extents := make([]images.Extent, len(numbers))
	for k, i := range numbers {
		extents[k] = d.file.Found[i].Extent()
	}
	slices.SortFunc(extents, func(a, b images.Extent) int { return cmp.Compare(a.Offset, b.Offset) })
	for k := 1; k < len(extents); k++ {
		if extents[k].Offset < extents[k-1].Offset+extents[k-1].Size {
			return true
		}
	}
	return false
}

// imageSink collects an image and passes it on when it is complete. The memory
// is then used for the next image.
type imageSink struct {
	size   int64
	data   []byte
	got    int64
	done   func([]byte) error
	err    error
	spares *spares
}

// Write appends bytes to the image.
func (s *imageSink) Write(p []byte) (int, error) {
	if s.data == nil {
		s.data = s.spares.take(s.size)
	}
	s.data = append(s.data, p...)
	if s.got += int64(len(p)); s.got >= s.size {
		s.err = s.done(s.data)
		s.spares.put(s.data)
		s.data = nil
	}
	return len(p), s.err
}

// spares holds buffers that are not in use.
type spares struct {
	size int64 // of each buffer, in bytes; if 0, buffers have the requested size
	mu   sync.Mutex
	free [][]byte
}

// take returns an empty buffer for size bytes. The caller has reserved its
// memory.
func (s *spares) take(size int64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b
	}
	return make([]byte, 0, max(s.size, size))
}

// put returns a buffer to the spares.
func (s *spares) put(b []byte) {
	if s.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b[:0])
}
