package images

import (
	"bytes"
	"context"
	"io"
	"unsafe"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Copy is an image and the destination of its content.
type Copy struct {
	Image *DeviceImage
	// To receives the content in order, from one goroutine. If it is a
	// files.Output, ranges of files are copied inside the kernel.
	To io.Writer
}

// Extent is the location of the bytes of an image. Images with equal extents
// have the same bytes.
type Extent struct {
	// Bundle is the compressed bundle that contains the bytes; nil if they are not
	// compressed.
	Bundle *ccob.Reader
	Offset int64 // in the uncompressed bundle
	Size   int64

	start *byte
	host  bool
}

// Extent returns the location of the bytes of the image.
func (e *DeviceImage) Extent() Extent {
	at := &e.content
	x := Extent{Bundle: at.reader, Offset: at.offset, Size: at.length(), host: at.host}
	if at.reader == nil {
		x.start = unsafe.SliceData(at.plain.Mapped(guard.Inside))
	}
	return x
}

// Copy writes the contents of images of f, in parallel. Each compressed bundle is
// decoded once for all of its images. If a check fails, Copy returns an error, but
// may already have written the bytes.
func (f *File) Copy(ctx context.Context, copies []Copy) (err error) {
	defer guard.Into(&err)()
	ctx = f.account.Context(ctx)
	type extraction struct {
		image  *DeviceImage // the first, for errors
		ranges []ccob.Range
	}
	bundles := make(map[*ccob.Reader]*extraction)
	var order []*ccob.Reader // so that errors are deterministic
	var direct []Copy
	for _, c := range copies {
		at := &c.Image.content
		if _, readable := at.readable(); readable || at.host {
			direct = append(direct, c)
			continue
		}
		x := bundles[at.reader]
		if x == nil {
			x = &extraction{image: c.Image}
			bundles[at.reader] = x
			order = append(order, at.reader)
		}
		x.ranges = append(x.ranges, ccob.Range{Offset: at.offset, Size: at.size, W: c.To})
	}
	err = f.budget.Each(ctx, len(direct), func(ctx context.Context, i int) error {
		return direct[i].Image.wrap(f.copyDirect(ctx, direct[i]))
	})
	if err != nil {
		return err
	}
	extract := func(ctx context.Context, i int) error {
		x := bundles[order[i]]
		return x.image.wrap(order[i].Extract(ctx, x.ranges))
	}
	if len(order) == 1 {
		return extract(ctx, 0) // which runs in parallel itself
	}
	return f.budget.Each(ctx, len(order), extract)
}

// copyDirect writes an image that is readable, or a host object.
func (f *File) copyDirect(ctx context.Context, c Copy) error {
	at := &c.Image.content
	sink, ok := c.To.(content.Sink)
	if !ok {
		sink = &content.WriterSink{W: c.To}
	}
	whole, readable := at.readable()
	switch {
	case !at.host:
		return sink.Append(whole)
	case readable:
		return object.RemoveSections(whole, isEntrySection, sink)
	}
	raw, err := at.reader.Decode(ctx)
	if err != nil {
		return err
	}
	defer raw.Release()
	return object.RemoveSections(content.Memory(raw.Bytes()), isEntrySection, sink)
}

// Contents are the contents of images, readable until Close. They are also
// invalid after their File is closed.
type Contents struct {
	list   []content.Content
	memory *budget.Reservation
}

// Load makes the contents of images of f readable. It decodes and checks contents
// that are not stored uncompressed in the file, and keeps them in memory that it
// reserves from the budget. Load all images that are required at the same time
// with one call, because each call decodes every compressed bundle once.
func (f *File) Load(ctx context.Context, list ...*DeviceImage) (_ *Contents, err error) {
	defer guard.Into(&err)()
	ctx = f.account.Context(ctx)
	c := &Contents{list: make([]content.Content, len(list))}
	var copies []Copy
	var buffers []*content.Buffer
	var places []int
	size := int64(0)
	for i, image := range list {
		at := &image.content
		if whole, readable := at.readable(); readable && !at.host {
			c.list[i] = whole
			continue
		}
		size += at.length()
		buffer := content.NewBuffer(at.length())
		buffers, places = append(buffers, buffer), append(places, i)
		copies = append(copies, Copy{Image: image, To: buffer})
	}
	if copies == nil {
		return c, nil
	}
	if c.memory, err = f.budget.Reserve(ctx, size); err != nil {
		return nil, err
	}
	if err := f.Copy(ctx, copies); err != nil {
		c.Close()
		return nil, err
	}
	for k, i := range places {
		c.list[i] = content.Memory(buffers[k].Bytes())
	}
	return c, nil
}

// Get returns the content of image i of the loaded images.
func (c *Contents) Get(i int) content.Content { return c.list[i] }

// Close releases the memory.
func (c *Contents) Close() {
	c.memory.Release()
	c.list = nil
}

// length returns the length of c in bytes.
func (c *origin) length() int64 {
	if c.reader != nil {
		return c.size
	}
	return c.plain.Len()
}

// readable returns the bytes if they are in the file or in memory. For a host object,
// they include the sections to remove.
func (c *origin) readable() (content.Content, bool) {
	if c.search != nil && c.search.raw != nil {
		return content.Memory(c.search.raw.Bytes()).Slice(c.offset, c.size), true
	}
	return c.plain, c.reader == nil
}

// Plain returns the content of an image that is stored uncompressed, and false
// for other images: see File.Load.
func (e *DeviceImage) Plain() (content.Content, bool) {
	return e.content.plain, e.content.reader == nil && !e.content.host
}

// SameContent reports whether two images have the same bytes, as far as this can
// be determined without decoding. Their files must be open. Bytes that can no longer be read are not the same.
func SameContent(a, b *DeviceImage) bool {
	x, plainA := a.Plain()
	y, plainB := b.Plain()
	if !plainA || !plainB {
		return a.Extent() == b.Extent()
	}
	same := false
	err := guard.Faults(func() error {
		same = bytes.Equal(x.Mapped(guard.Inside), y.Mapped(guard.Inside))
		return nil
	})
	return same && err == nil
}
