package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// kpackCode are the code objects of a kpack archive. Those that entries share are one.
type kpackCode struct {
	scheme  kpack.Scheme
	entries []*kpack.Entry
}

// readKpack returns the code objects of a kpack archive, and for other files nil.
func readKpack(f *images.File) (*kpackCode, error) {
	data := f.Content()
	if !kpack.Is(data.Mapped(guard.Inside)) {
		return nil, nil
	}
	var archive *kpack.Archive
	err := guard.Contain(func() (err error) {
		archive, err = kpack.Parse(data)
		return err
	})
	if err != nil {
		return nil, &images.PlaceError{Place: f.Name(), Err: err}
	}
	code := &kpackCode{scheme: archive.Scheme}
	seen := make(map[int]bool)
	for i := range archive.Entries {
		if e := &archive.Entries[i]; !seen[e.Ordinal] {
			seen[e.Ordinal] = true
			code.entries = append(code.entries, e)
		}
	}
	return code, nil
}

// kpackImage describes the place of a code object of an archive.
func kpackImage(f *images.File, e *kpack.Entry) *images.DeviceImage {
	return &images.DeviceImage{
		Place: images.Place{File: f.Name(), Form: images.FormKpack}, Size: e.Size, Offload: "hipv4", Triple: "amdgcn-amd-amdhsa", Arch: e.Arch,
		ID: e.ID(), Format: offloadbinary.Object,
	}
}

// describeKpack describes the code objects of an archive, in sequence.
func (d *describer) describeKpack(ctx context.Context, code *kpackCode) error {
	for i, e := range code.entries {
		found := d.file.Found[i]
		d.file.Images[i] = kernels.Image{Index: i, ID: found.ID, Size: found.Size, Arch: found.Arch}
		err := func() error {
			body, memory, err := e.Content(ctx, d.session.budget, code.scheme)
			if err != nil {
				return d.wrap(i, err)
			}
			defer memory.Release()
			return guard.Contain(func() error { return d.image(i, body.Mapped(guard.Inside)) })
		}()
		if err != nil {
			return err
		}
	}
	return d.copies(nil, nil)
}
