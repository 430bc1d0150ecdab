package engine

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/devicecode/ptx"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// InspectOptions are the options of Inspect and InspectAll: what is read of each image. The zero
// value is the place of the image, its target and its format. Any other describes the kernels.
type InspectOptions struct {
	// Kernels describes the kernels.
	Kernels bool
	// Hash computes the hashes of the images.
	Hash bool
	// Sources reads the source lines of code, and the hashes of code.
	Sources bool
	// Visit, if not nil, is called with the bytes of each image. Of images at the same place
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
	// Images describes the same images in the same order, with their kernels. It is
	// nil if the options do not ask for kernels.
	Images []kernels.Image
}

// Inspect describes the device images in a file, however they are stored. An
// image that is an offload binary itself is replaced by the images in it. A file
// that is a code object is also an image, and so are the code objects of a kpack
// archive. Each compressed bundle is decoded once, in sequence. Faults of the
// content are of type *images.PlaceError.
func (s *Session) Inspect(ctx context.Context, name string, opt InspectOptions) (_ *DeviceFile, err error) {
	defer guard.Into(&err)()
	f, err := s.Open(ctx, name, images.Options{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !opt.Kernels && !opt.Hash && !opt.Sources && opt.Visit == nil {
		file, _, err := s.inspect(ctx, f)
		return file, err
	}
	file, err := s.Describe(ctx, f, opt)
	if err != nil {
		return nil, err
	}
	return file, kernels.DemangleAll(ctx, s.budget, file.Images)
}

// InspectAll is Inspect for files and directories, with kernels and the hashes of images. In a
// directory, files without device code are skipped; a directory without any device code is an error.
func (s *Session) InspectAll(ctx context.Context, inputs []string, opt InspectOptions) (_ []*DeviceFile, err error) {
	defer guard.Into(&err)()
	opt.Hash = true
	var all []*DeviceFile
	for _, input := range inputs {
		names, isDir := []string{input}, false
		if input != "-" {
			folders, found, err := s.files.Tree(ctx, input)
			if err != nil {
				return nil, err
			}
			if isDir = found; isDir {
				names = nil
			}
			for _, folder := range folders {
				names = append(names, folder.Files...)
			}
		}
		before := len(all)
		for _, name := range names {
			file, err := s.Inspect(ctx, name, opt)
			if err != nil {
				return nil, err
			}
			if len(file.Found) > 0 || !isDir {
				all = append(all, file)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s: no file with device code in the directory or its subdirectories", input)
		}
	}
	return all, nil
}

// ImagesOf returns the images of all files.
func ImagesOf(files []*DeviceFile) []kernels.Image {
	var all []kernels.Image
	for _, f := range files {
		all = append(all, f.Images...)
	}
	return all
}

// describedMemory is the memory for the description of an image, in bytes, in addition to what the
// search reserves.
const describedMemory = 1 << 10

// inspect describes the images in an open file. code is set if they are those of a kpack archive.
func (s *Session) inspect(ctx context.Context, f *images.File) (file *DeviceFile, code *kpackCode, err error) {
	found, err := f.Unwrapped()
	if err != nil {
		return nil, nil, err
	}
	memory, err := s.budget.Reserve(ctx, describedMemory*int64(len(found)))
	if err != nil {
		return nil, nil, &images.PlaceError{Place: f.Name(), Err: err}
	}
	defer memory.Release()
	if len(found) == 0 {
		if code, err = readKpack(f); err != nil {
			return nil, nil, err
		}
		if code != nil {
			for _, e := range code.entries {
				found = append(found, kpackImage(f, e))
			}
		}
	}
	if len(found) == 0 {
		self := f.Self()
		err := guard.Contain(func() error {
			if describeCodeObject(self, f.Content().Mapped(guard.Inside)) {
				found = append(found, self)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return &DeviceFile{Name: f.Name(), Size: f.Content().Len(), Found: found}, code, nil
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
