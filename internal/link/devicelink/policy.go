package devicelink

import (
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
)

// Policy selects the rules by which images are divided into links, and by which HIPTargets
// names the results. All policies agree on
// these: an image for one processor or setting does not go into a link for all (except as
// stated for EveryTarget), and the order of inputs decides only the order of images.
type Policy int

const (
	// LLVM22 follows clang-linker-wrapper 23, also for 22, whose links depend on the order
	// of the inputs. Objects for gfx90a are in the link for gfx90a:xnack+, and have a link
	// of their own only if there is no such link. Triples are compared as text.
	LLVM22 Policy = iota
	// LLVM24 follows clang-linker-wrapper 24. gfx90a and gfx90a:xnack+ are two links.
	// Triples such as amdgcn-amd-amdhsa and amdgpu9.0a-amd-amdhsa are one target.
	LLVM24
	// EveryTarget is the policy of offload link: each target that an object has an image
	// for has a link. Objects for gfx90a are in the links for gfx90a and gfx90a:xnack+;
	// objects for every processor are in all links of their triple. Members for
	// gfx90a:xnack+ are also in the link for gfx90a if no object is for gfx90a:xnack+. In a
	// link, all images are in the order of the inputs; the other policies put objects
	// before members. HIPTargets names images for other devices than AMD's after their
	// triple; with the other policies, it names all images amdgcn, as LLVM does.
	EveryTarget
)

// PolicyOf returns the policy of a release of clang-linker-wrapper.
func PolicyOf(release target.Release) Policy {
	if dialect.Of(release).SameTargets {
		return LLVM24
	}
	return LLVM22
}

// rules are the differences between policies.
type rules struct {
	// served reports whether the target of an object needs no link of its own because of a
	// link that exists.
	served func(link, image target.Device) bool
	// object reports whether an object's image goes into a link.
	object func(link, image target.Device) bool
	// member reports whether a member's image, of another target, goes into a link. linked
	// reports whether an object is for the target of the image.
	member func(link, image target.Device, linked bool) bool

	specificFirst bool // whether objects that specify more settings make links first
	extracts      bool // whether Options.Extract applies
	inputOrder    bool // whether members are not after all objects
	ownEntries    bool // whether HIPTargets uses the triples of other devices than AMD's
}

func (p Policy) rules() rules {
	switch p {
	case LLVM24:
		return rules{
			served:        target.Device.Same,
			object:        target.Device.Same,
			member:        func(link, image target.Device, _ bool) bool { return image.Provides(link) },
			specificFirst: true,
			extracts:      true,
		}
	case EveryTarget:
		return rules{
			served: target.Device.Equivalent,
			object: serves,
			member: func(link, image target.Device, linked bool) bool {
				return serves(link, image) || !linked && link.Arch != generic && link.LinksWith(image)
			},
			inputOrder: true,
			ownEntries: true,
		}
	}
	return rules{
		served:        sameTriple,
		object:        sameTriple,
		member:        func(link, image target.Device, _ bool) bool { return link.LinksWith(image) },
		specificFirst: true,
		extracts:      true,
	}
}

// sameTriple reports whether an image goes into a link of the same triple, as text: the archs
// are equal, or it is the same AMD GPU and the link specifies all settings of the image.
func sameTriple(link, image target.Device) bool {
	if link.Triple != image.Triple {
		return false
	}
	return link.Arch == image.Arch || specifies(link.Arch, image.Arch) && isAMD(link.Triple)
}

// serves reports whether code for the device of an image is right for the target of a link:
// the devices are the same, or the code is for every processor or leaves settings open.
func serves(link, image target.Device) bool {
	switch {
	case link.Equivalent(image):
		return true
	case link.Arch == generic || !link.LinksWith(image):
		return false
	}
	return hasSettings(link.Arch, image.Arch)
}

// specifies reports whether two target IDs have the same processor, and the first has all
// settings of the second.
func specifies(link, image string) bool {
	own, _, _ := strings.Cut(link, ":")
	other, _, _ := strings.Cut(image, ":")
	return own == other && hasSettings(link, image)
}

// hasSettings reports whether the first target ID has all settings of the second.
func hasSettings(link, image string) bool {
	own := strings.Split(link, ":")
	for _, setting := range strings.Split(image, ":")[1:] {
		if !slices.Contains(own[1:], setting) {
			return false
		}
	}
	return true
}
