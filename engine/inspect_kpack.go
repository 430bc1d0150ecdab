package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/kpack"
)

// kpackImages returns the code objects of a kpack archive, and for other files nil. Code objects
// that entries share are one image.
func kpackImages(f *images.File) (archive *kpack.Archive, entries []*kpack.Entry, err error) {
	data := f.Content()
	if !kpack.Is(data.Bytes()) {
		return nil, nil, nil
	}
	err = guard.Contain(func() (err error) {
		archive, err = kpack.Parse(data)
		return err
	})
	if err != nil {
		return nil, nil, &images.PlaceError{Place: f.Name(), Err: err}
	}
	seen := make(map[int]bool)
	for i := range archive.Entries {
		if e := &archive.Entries[i]; !seen[e.Ordinal] {
			seen[e.Ordinal] = true
			entries = append(entries, e)
		}
	}
	return archive, entries, nil
}

// kpackImage describes the place of a code object of an archive.
func kpackImage(f *images.File, e *kpack.Entry) *images.DeviceImage {
	return &images.DeviceImage{
		Place: images.Place{File: f.Name(), Form: images.FormKpack}, Size: e.Size, Offload: "hipv4", Triple: "amdgcn-amd-amdhsa", Arch: e.Arch,
		ID: e.ID(), Format: offloadbinary.Object,
	}
}

// describeKpack describes the code objects of an archive, in sequence.
func (d *describer) describeKpack(ctx context.Context, archive *kpack.Archive, entries []*kpack.Entry) error {
	for i, e := range entries {
		found := d.file.Found[i]
		d.file.Images[i] = kernels.Image{Index: i, ID: found.ID, Size: found.Size, Arch: found.Arch}
		err := func() error {
			body, memory, err := e.Content(ctx, d.session.budget, archive.Scheme)
			if err != nil {
				return d.wrap(i, err)
			}
			defer memory.Release()
			return guard.Contain(func() error { return d.image(i, body.Bytes()) })
		}()
		if err != nil {
			return err
		}
	}
	return d.copies(nil, nil)
}
