package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/codeobject"
	"github.com/rules-offload/rules_offload/internal/cubin"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/ptx"
)

// InspectOptions are the options of Inspect and Kernels.
type InspectOptions struct {
	Input string
	// Hash makes Kernels compute the hashes of the images.
	Hash bool
	// Sources makes Kernels read the source lines of code, and the hashes of code.
	Sources bool
	// Visit, if not nil, is called by Kernels with the bytes of each image. Of images at the same place
	// in the file, it gets the first. It may be called concurrently.
	Visit func(i int, data []byte) error
}

// DeviceFile describes a file and the device images in it. The contents of the
// images are no longer available.
type DeviceFile struct {
	Name string // as the request named it
	Size int64  // of the file, in bytes
	// Found are the images in the order of the file.
	Found []*images.DeviceImage
	// Images describes the same images in the same order, with their kernels. Only
	// Kernels sets it.
	Images []kernels.Image
}

// Inspect describes the device images in a file, however they are stored. An
// image that is an offload binary itself is replaced by the images in it. A file
// that is a code object is also an image, and so are the code objects of a kpack archive. Faults of the content are of type
// *images.PlaceError.
func (s *Session) Inspect(ctx context.Context, opt InspectOptions) (*DeviceFile, error) {
	f, err := s.Open(ctx, opt.Input, images.Options{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.inspect(ctx, f)
}

// describedMemory is the memory for the description of an image, in bytes, in addition to what the
// search reserves.
const describedMemory = 1 << 10

// inspect describes the images in an open file.
func (s *Session) inspect(ctx context.Context, f *images.File) (*DeviceFile, error) {
	found, err := f.Unwrapped()
	if err != nil {
		return nil, err
	}
	memory, err := s.budget.Reserve(ctx, describedMemory*int64(len(found)))
	if err != nil {
		return nil, &images.PlaceError{Place: f.Name(), Err: err}
	}
	defer memory.Release()
	if len(found) == 0 {
		_, entries, err := kpackImages(f)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			found = append(found, kpackImage(f, e))
		}
	}
	if len(found) == 0 {
		self := f.Self()
		err := guard.Contain(func() error {
			if describeCodeObject(self, f.Content().Bytes()) {
				found = append(found, self)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return &DeviceFile{Name: f.Name(), Size: f.Content().Len(), Found: found}, nil
}

// describeCodeObject describes a file that is device code itself. It returns
// false for other files.
func describeCodeObject(e *images.DeviceImage, data []byte) bool {
	e.Format = offloadbinary.KindOfData(data)
	switch kernels.Identify(data) {
	case kernels.CodeObject:
		e.Triple = "amdgcn-amd-amdhsa"
		if t, err := codeobject.ParseTarget(data); err == nil {
			e.Arch = t.ID()
		}
	case kernels.Cubin:
		e.Triple = "nvptx64-nvidia-cuda"
		if o, err := cubin.Parse(data); err == nil {
			e.Arch = o.Arch()
		}
	case kernels.PTX:
		e.Format, e.Triple, e.Arch = offloadbinary.PTX, "nvptx64-nvidia-cuda", ptx.Target(data)
	case kernels.SPIRV:
	default:
		return false
	}
	return true
}
