package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/kernels"
)

// KernelsOptions say what Kernels looks at.
type KernelsOptions struct {
	Input string
	// Hash asks for the hashes of the images.
	Hash bool
}

// DeviceFile is a file with the device images in it.
type DeviceFile struct {
	Name string // as the request named it
	Size int64  // of the file, in bytes
	// Embedded are the images as Inspect returns them. Images describes the same
	// ones in the same order.
	Embedded []*Embedded
	Images   []kernels.Image
}

// Kernels returns the kernels of all images, by image and name.
func (f *DeviceFile) Kernels() []kernels.Kernel {
	list := []kernels.Kernel{}
	for i := range f.Images {
		list = append(list, f.Images[i].Kernels...)
	}
	return list
}

// maxKernels is how many kernels are read from a file, for files that have the
// same image many times. The largest libraries have some ten thousand.
const maxKernels = 1 << 20

// Kernels returns the images that Inspect finds in a file, with their kernels.
// Images of compressed bundles are decoded once, one after the other.
func (s *Session) Kernels(ctx context.Context, opt KernelsOptions) (file *DeviceFile, err error) {
	err = s.kernels(ctx, opt, func(_ *finder, found *DeviceFile) error {
		file = found
		return kernels.DemangleAll(ctx, s.Budget, found.Images)
	})
	return file, err
}

// kernels calls fn with what Kernels returns, without demangled names, while the
// file is open.
func (s *Session) kernels(ctx context.Context, opt KernelsOptions, fn func(*finder, *DeviceFile) error) error {
	return s.find(ctx, opt.Input, Everything, func(ctx context.Context, f *finder) error {
		images, err := f.inspected()
		if err != nil {
			return err
		}
		file := &DeviceFile{Name: opt.Input, Size: f.input.Size(), Embedded: images, Images: make([]kernels.Image, len(images))}
		d := describer{session: s, file: file, hash: opt.Hash, left: maxKernels}
		if err := d.describe(ctx); err != nil {
			return err
		}
		return fn(f, file)
	})
}

// describer describes the images of a file.
type describer struct {
	session *Session
	file    *DeviceFile
	hash    bool
	left    int // how many more kernels to read
}

// describe describes all images. Those with the same bytes are read once.
func (d *describer) describe(ctx context.Context) error {
	var plain, same []int
	packed := make(map[*ccob.Reader][]int)
	var readers []*ccob.Reader // in order, for the first error not to depend on chance
	first := make(map[extent]int)
	room := make(map[*ccob.Reader]int64)
	for i, e := range d.file.Embedded {
		img := &d.file.Images[i]
		*img = kernels.Image{Index: i, Members: e.Members, Section: e.Section, ID: e.ID, Size: e.Size, Arch: e.Arch, Host: e.Offload == "host"}
		if e.Size == 0 {
			continue
		}
		at := extentOf(e)
		if _, ok := first[at]; ok {
			same = append(same, i)
			continue
		}
		first[at] = i
		// Entries of a bundle do not overlap much, or a small file could hold very
		// many images.
		const overlap = 4
		room[e.reader] += e.Size
		if most := overlap*d.file.Size + maxInflated; e.reader == nil && room[nil] > most ||
			e.reader != nil && room[e.reader] > overlap*e.reader.RawSize() {
			return d.wrap(i, errors.New("the images of the file overlap"))
		}
		if e.reader == nil {
			plain = append(plain, i)
			continue
		}
		if packed[e.reader] == nil {
			readers = append(readers, e.reader)
		}
		packed[e.reader] = append(packed[e.reader], i)
	}
	err := d.session.Budget.Each(ctx, len(plain), func(_ context.Context, k int) error {
		return d.image(plain[k], d.file.Embedded[plain[k]].content.Bytes())
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

// extent is where the bytes of an image are.
type extent struct {
	reader       *ccob.Reader
	start        *byte
	offset, size int64
}

func extentOf(e *Embedded) extent {
	if e.reader != nil {
		return extent{reader: e.reader, offset: e.offset, size: e.Size}
	}
	return extent{start: &e.content.Bytes()[0], size: e.Size}
}

// image describes image i.
func (d *describer) image(i int, data []byte) error {
	img := &d.file.Images[i]
	if d.hash {
		img.Hash = xxh3.Hash(data)
	}
	if err := img.Describe(data, img.Arch); err != nil {
		return d.wrap(i, err)
	}
	return nil
}

// copies describes images that have the bytes of others, and counts kernels.
func (d *describer) copies(same []int, first map[extent]int) error {
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
		img, from := &d.file.Images[i], &d.file.Images[first[extentOf(d.file.Embedded[i])]]
		if d.left < len(from.Kernels) {
			return count(first[extentOf(d.file.Embedded[i])])
		}
		img.Copy(from)
		img.Hash = from.Hash
		if err := count(i); err != nil {
			return err
		}
	}
	return nil
}

// wrap says which image an error is about. Offsets in errors are those in the image.
func (d *describer) wrap(i int, err error) error {
	e := d.file.Embedded[i]
	what := e.ID
	if what == "" {
		what = e.Arch
	}
	if what != "" {
		what = fmt.Sprintf(" (%q)", what)
	}
	at := place{input: d.file.Name, members: e.Members, section: e.Section}
	return at.wrap(fmt.Errorf("image %d%s: %w", i, what, err))
}

// decode describes images of a compressed bundle.
func (d *describer) decode(ctx context.Context, reader *ccob.Reader, images []int) error {
	largest := int64(0)
	ranges := make([]ccob.Range, len(images))
	sinks := make([]*imageSink, len(images))
	for k, i := range images {
		e := d.file.Embedded[i]
		sinks[k] = &imageSink{size: e.Size, done: func(data []byte) error { return d.image(i, data) }}
		ranges[k] = ccob.Range{Offset: e.offset, Size: e.Size, W: sinks[k]}
		largest = max(largest, e.Size)
	}
	most := min(reader.RawSize(), largest*int64(d.session.Budget.Cores()))
	return d.session.Budget.WithBytes(ctx, most, func(ctx context.Context) error {
		err := reader.Extract(ctx, ranges)
		// Errors of images come first: those of lower images are the same each time.
		var failed []*imageSink
		for _, s := range sinks {
			if s.err != nil {
				failed = append(failed, s)
			}
		}
		if len(failed) > 0 {
			return slices.MinFunc(failed, func(a, b *imageSink) int { return cmp.Compare(slices.Index(sinks, a), slices.Index(sinks, b)) }).err
		}
		if err != nil {
			e := d.file.Embedded[images[0]]
			return place{input: d.file.Name, members: e.Members, section: e.Section}.wrap(fmt.Errorf("compressed bundle at byte 0x%x: %w", e.Container, err))
		}
		return nil
	})
}

// imageSink collects an image and hands it over when it is whole. The memory is
// free after that.
type imageSink struct {
	size int64
	data files.Buffer
	got  int64
	done func([]byte) error
	err  error
}

// Write takes the next bytes of the image.
func (s *imageSink) Write(p []byte) (int, error) {
	if _, err := s.data.Write(p); err != nil {
		return 0, err
	}
	if s.got += int64(len(p)); s.got >= s.size {
		s.err = s.done(s.data.Bytes())
		s.data = files.Buffer{}
	}
	return len(p), s.err
}
