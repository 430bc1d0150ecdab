package coverage

import (
	"iter"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Image is a device image.
type Image struct {
	ID   string // entry ID, "" outside bundles
	Size int64  // bytes
	// Code is the target of an AMD code object; nil for other images.
	Code *target.CodeObject
	// Empty reports whether the image has neither kernels nor exported variables.
	Empty bool

	// Kernels are the names of the kernels. It has none if they are not known.
	Kernels map[string]bool

	place place // in the file
}

// place is the place of an image in a file.
type place struct {
	members, section string
	container        int64
}

// loads reports whether the loader accepts the image for a GPU.
func (img *Image) loads(m Mode) bool {
	c := img.Code
	if c == nil || c.Version == 0 {
		return false
	}
	for i, code := range c.Features {
		if (code == target.FeatureOn || code == target.FeatureOff) && code != m.Features[i] {
			return false
		}
	}
	return c.Processor == m.Processor || c.Generic >= 1 && c.Processor != "" && c.Processor == GenericOf(m.Processor)
}

// Bundle is a set of images from which the runtime selects one: a bundle, or
// images outside bundles.
type Bundle struct {
	Images []Image // in the order of the file
	// Bare is set for images outside bundles: any image that loads may be
	// selected.
	Bare bool
	// unreached is set if host code does not refer to the bundle.
	unreached bool
}

// empty reports whether all images are empty.
func (b *Bundle) empty() bool {
	return !slices.ContainsFunc(b.Images, func(img Image) bool { return img.Size > 0 && !img.Empty })
}

// ofDevices returns the bundles that host code finds with an entry for a device. The others are not device code.
func ofDevices(bundles []Bundle) []Bundle {
	return slices.DeleteFunc(slices.Clone(bundles), func(b Bundle) bool {
		return b.unreached || !slices.ContainsFunc(b.Images, func(img Image) bool { return img.Size > 0 })
	})
}

// sourcesOf returns the bundles with an entry for a device as sources.
func sourcesOf(bundles []Bundle) []source {
	bundles = ofDevices(bundles)
	sources := make([]source, len(bundles))
	for i := range bundles {
		sources[i] = &bundles[i]
	}
	return sources
}

// images returns the images of the bundle.
func (b *Bundle) images() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		for i := range b.Images {
			if !yield(&b.Images[i]) {
				return
			}
		}
	}
}

// source is what a mode must find code in: a bundle, or a source of a split library.
type source interface {
	ask(m Mode) answer
	// empty reports whether all code is empty.
	empty() bool
	// images returns all images of the source.
	images() iter.Seq[*Image]
}

// answer is the code that a mode finds in a source.
type answer struct {
	verdict Verdict
	how     How
	entry   string
	place   *Place  // of code outside of the file; nil for other code
	older   Verdict // with older runtimes; "" if it is verdict
	image   *Image  // nil if no code was found
}

// ask returns the code that a mode finds.
func (b *Bundle) ask(m Mode) answer {
	img, how := b.find(m)
	switch {
	case img == nil, how != SPIRV && !img.loads(m):
		return answer{verdict: No}
	case img.Empty && !b.empty():
		return answer{verdict: Empty, how: how, entry: img.ID, image: img}
	}
	return answer{verdict: Yes, how: how, entry: img.ID, image: img}
}

// find returns the image that the runtime selects, or nil for none.
func (b *Bundle) find(m Mode) (*Image, How) {
	if b.Bare {
		var found *Image
		for i := range b.Images {
			if img := &b.Images[i]; img.Size > 0 && img.loads(m) && (found == nil || found.Empty && !img.Empty) {
				found = img
			}
		}
		return found, CodeObject
	}
	if img := b.named(m.String()); img != nil {
		return img, Native
	}
	if generic := GenericOf(m.Processor); generic != "" {
		if img := b.named(Mode{generic, m.Features}.String()); img != nil {
			return img, Generic
		}
	}
	for i := range b.Images {
		if img := &b.Images[i]; img.Size > 0 && isSPIRV(img.ID) {
			return img, SPIRV
		}
	}
	return nil, ""
}

// named returns the first image for a target ID. A target ID with features that
// the processor does not have matches no image.
func (b *Bundle) named(targetID string) *Image {
	const triple = "hip-amdgcn-amd-amdhsa--"
	request, err := target.Parse(triple + targetID)
	if err != nil || target.CheckTargetID(request.Triple, targetID) != nil {
		return nil
	}
	for i := range b.Images {
		img := &b.Images[i]
		if img.Size == 0 {
			continue
		}
		entry, err := target.Parse(img.ID)
		if err == nil && isHIP(entry.Kind) && target.CheckTargetID(request.Triple, entry.TargetID) == nil &&
			(target.Rules{}).Match(entry, request).Compatible() {
			return img
		}
	}
	return nil
}

func isHIP(k target.Kind) bool { return k == target.HIP || k == target.HIPv4 }

// isSPIRV reports whether an entry ID is one for AMD GPUs' SPIR-V.
func isSPIRV(id string) bool {
	kind, rest, _ := strings.Cut(id, "-")
	return isHIP(target.Kind(kind)) && (rest == "spirv64-amd-amdhsa--amdgcnspirv" || rest == "spirv64-amd-amdhsa-unknown-amdgcnspirv")
}
