package target

import "strings"

// Device is what an offload binary says of its image: the target triple, and
// the processor with its features, "generic" for code that fits all.
type Device struct {
	Triple string
	Arch   string
}

// LinksWith reports whether images for the two devices go into one device link
// under the rules of clang-linker-wrapper: the triples are equal and so are the
// archs, or one arch is "generic", or it is the same AMD GPU and no setting of
// xnack or sramecc contradicts another.
func (d Device) LinksWith(o Device) bool {
	switch {
	case d.Triple != o.Triple:
		return false
	case d.Arch == o.Arch, d.Arch == "generic", o.Arch == "generic":
		return true
	case !ParseTriple(d.Triple).isAMDGPU(), processorOf(d.Arch) != processorOf(o.Arch):
		return false
	}
	for _, f := range featureNames {
		if d.has(f+"+") && o.has(f+"-") || d.has(f+"-") && o.has(f+"+") {
			return false
		}
	}
	return true
}

func (d Device) has(feature string) bool { return strings.Contains(d.Arch, feature) }
