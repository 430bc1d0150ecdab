package target

import (
	"slices"
	"strings"
)

// Device is the target of an image in an offload binary: the triple, and the
// processor with its features, or "generic" for code for all processors.
type Device struct {
	Triple string
	Arch   string
}

// LinksWith reports whether images for the two devices are inputs of the same device
// link according to clang-linker-wrapper: the triples are compatible and the archs are
// equal, or one arch is "generic", or it is the same AMD GPU and the settings of its features
// do not conflict.
func (d Device) LinksWith(o Device) bool {
	switch {
	case !d.sameTriple(o):
		return false
	case d.Arch == o.Arch, d.Arch == "generic", o.Arch == "generic":
		return true
	case !ParseTriple(d.Triple).isAMDGPU(), processorOf(d.Arch) != processorOf(o.Arch):
		return false
	}
	for i := range features {
		on, off := Feature{features[i].name, true}.String(), Feature{features[i].name, false}.String()
		if d.has(on) && o.has(off) || d.has(off) && o.has(on) {
			return false
		}
	}
	return true
}

func (d Device) has(feature string) bool { return strings.Contains(d.Arch, feature) }

// Equivalent reports whether the two devices are the same: the archs are equal, and the
// triples are equal or are names of the same AMD GPU, such as amdgcn and amdgpu9.0a.
func (d Device) Equivalent(o Device) bool { return d.Arch == o.Arch && d.sameTriple(o) }

// sameTriple reports whether the triples are equal, or are for AMD GPUs whose
// code is interchangeable.
func (d Device) sameTriple(o Device) bool {
	if d.Triple == o.Triple {
		return true
	}
	if !strings.HasPrefix(d.Triple, amdgpu) && !strings.HasPrefix(o.Triple, amdgpu) {
		return false // as in LLVM 22
	}
	a, b := ParseTriple(d.Triple), ParseTriple(o.Triple)
	return a.Arch == ArchAMDGCN && b.Arch == ArchAMDGCN && a.CompatibleWith(b)
}

// Same reports whether the two devices are the same by the rules of LLVM 24: the triples are
// compatible, and the processors and settings are equal. If an image for an AMD GPU has no
// processor, its triple specifies one.
func (d Device) Same(o Device) bool {
	return d.sameTriple(o) && d.code() == o.code() && d.settings(o) && o.settings(d)
}

// Provides reports whether code for d can be linked with code for o, by the rules of LLVM 24 for
// members of archives: d does not specify any property that differs from o.
func (d Device) Provides(o Device) bool {
	if !ParseTriple(d.Triple).isAMDGPU() {
		return d.LinksWith(o)
	}
	own, other := d.code(), o.code()
	return d.sameTriple(o) && (own == "" || own == other || own == isaFamily(other)) && d.settings(o)
}

// code returns the instruction set of code for an AMD GPU, "" for all. For other devices and
// unknown processors, it returns the arch.
func (d Device) code() string {
	arch := processorOf(d.Arch)
	if arch == "generic" {
		arch = ""
	}
	if t := ParseTriple(d.Triple); t.isAMDGPU() {
		if arch == "" {
			return string(t.SubArch)
		}
		if p, known := amdgcnProcessors.get(arch); known {
			return p.isa
		}
	}
	return arch
}

// settings reports whether o has all settings of d.
func (d Device) settings(o Device) bool {
	others := strings.Split(o.Arch, ":")
	for _, setting := range strings.Split(d.Arch, ":")[1:] {
		if !slices.Contains(others[1:], setting) {
			return false
		}
	}
	return true
}
