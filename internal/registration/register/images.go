package register

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ReadImages returns the images of a file for the registration: a fat binary, or the images of an
// offload binary. The caller has reserved the memory for compressed offload binaries.
func (r *Registration) ReadImages(c content.Content) ([]Image, error) {
	form := runtimes.Of(r.Kind).Form
	switch {
	case c.Len() == 0:
		return nil, errors.New("found an empty file, expected a device image")
	case r.Package:
		return []Image{{Content: c}}, nil
	case form == runtimes.OffloadBinary && !offloadbinary.Is(c.Mapped(guard.Inside)):
		return nil, fmt.Errorf("not an offload binary: %s registers the outputs of clang-sycl-linker", runtimes.Of(r.Kind).Title)
	case !offloadbinary.Is(c.Mapped(guard.Inside)):
		return []Image{{Content: c}}, nil
	case form == runtimes.FatBinary:
		return nil, fmt.Errorf("found an offload binary, expected a fat binary, which the runtime of %s loads", r.Kind)
	}
	stored := Image{Content: c}
	var images []Image
	inflate := func(int64) (bool, error) { return true, nil }
	for p, err := range offloadbinary.Parse(c, offloadbinary.Options{Inflate: inflate}) {
		if err != nil {
			return nil, err
		}
		for _, img := range p.Images {
			if form == runtimes.OffloadBinary {
				images = append(images, Image{Content: img.Content, Triple: img.Get("triple"), ImageKind: uint8(img.Kind), Symbols: syclSymbols(&img)})
				continue
			}
			if p.Inflated == 0 {
				stored.Devices = append(stored.Devices, Range{Offset: img.Offset, Size: img.Content.Len()})
			} else { // the runtime requires uncompressed images
				images = append(images, Image{Content: img.Content})
			}
		}
	}
	if stored.Devices != nil {
		images = append([]Image{stored}, images...)
	}
	if images == nil {
		return nil, errors.New("an offload binary without images")
	}
	return images, nil
}

// syclSymbols returns the kernel names of an image, which its properties list
// one per line.
func syclSymbols(img *offloadbinary.Image) (names []string) {
	for name := range strings.SplitSeq(img.Get("symbols"), "\n") {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
