package target

import "strings"

// Device is what an offload binary says of its image: the target triple, and
// the processor with its features, "generic" for code that fits all.
type Device struct {
	Triple string
	Arch   string
}

// LinksWith reports whether images for the two devices go into one device link
// under the rules of clang-linker-wrapper: the triples are compatible and the
// archs are equal, or one arch is "generic", or it is the same AMD GPU and no setting of
// xnack or sramecc contradicts another.
func (d Device) LinksWith(o Device) bool {
	switch {
	case !d.sameTriple(o):
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

// Equivalent reports whether images for the two devices are code for the same: the
// archs are equal, and the triples too or are names of one AMD GPU, amdgcn and amdgpu9.0a.
func (d Device) Equivalent(o Device) bool { return d.Arch == o.Arch && d.sameTriple(o) }

// sameTriple reports whether the triples are equal, or name AMD GPUs that run each other's code.
func (d Device) sameTriple(o Device) bool {
	if d.Triple == o.Triple {
		return true
	}
	if !strings.HasPrefix(d.Triple, amdgpu) && !strings.HasPrefix(o.Triple, amdgpu) {
		return false // as LLVM 22
	}
	a, b := ParseTriple(d.Triple), ParseTriple(o.Triple)
	return a.Arch == ArchAMDGCN && b.Arch == ArchAMDGCN && a.CompatibleWith(b)
}

// RuntimeTriple returns a triple as entry IDs have it that HIP's runtime looks for: AMD GPUs are amdgcn
// there, with no instruction set. clang 24 writes them so, too.
func RuntimeTriple(triple string) string {
	arch, rest, _ := strings.Cut(triple, "-")
	if strings.HasPrefix(arch, amdgpu) {
		return string(ArchAMDGCN) + "-" + rest
	}
	return triple
}
