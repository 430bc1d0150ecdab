package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// KernelsOptions say what Kernels looks at.
type KernelsOptions struct {
	Input string
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

// Kernels returns the kernels of all device images in a file: those that
// Inspect finds, and a bare code object.
func (s *Session) Kernels(ctx context.Context, opt KernelsOptions) (*DeviceFile, error) {
	images, err := s.Inspect(ctx, InspectOptions{Input: opt.Input})
	if err != nil {
		return nil, err
	}
	file := &DeviceFile{Name: opt.Input, Embedded: images, Images: make([]kernels.Image, len(images))}
	for i, e := range images {
		file.Images[i] = kernels.Image{Index: i, Members: e.Members, Section: e.Section, ID: e.ID, Size: e.Size, Arch: e.Arch}
	}
	return file, nil
}
