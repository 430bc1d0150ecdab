package target

import "strings"

// amdgpu is what LLVM 23 and later call the architecture of AMD GPUs. The instruction set may
// follow, as in amdgpu9.0a. The older name is amdgcn, and has none.
const amdgpu = "amdgpu"

// parseISA returns the instruction set that follows amdgpu: that of a processor, such as 9.0a, or of a
// family of processors, such as 9; otherwise "".
func parseISA(s string) SubArch {
	if family, ok := isaAliases[s]; ok {
		s = family
	}
	if isaFamilies[s] != "" {
		return SubArch(s)
	}
	return ""
}

// isFamily reports whether an instruction set is that of a family of processors.
func isFamily(isa SubArch) bool { return isaFamilies[string(isa)] == string(isa) }

// sameISA reports whether code for the instruction sets of two triples of AMD GPUs can be used in
// each other's place: if they are equal, if one is the family of the other, or if one triple names
// none. A name that LLVM does not recognise, such as amdgpu9.99, is not the same as none.
func (t Triple) sameISA(o Triple) bool {
	switch {
	case t.SubArch == "":
		return t.isPlainAMDGPU()
	case o.SubArch == "":
		return o.isPlainAMDGPU()
	case t.SubArch == o.SubArch:
		return true
	}
	family := isaFamilies[string(t.SubArch)]
	return family == isaFamilies[string(o.SubArch)] && (isFamily(t.SubArch) || isFamily(o.SubArch))
}

// isPlainAMDGPU reports whether the triple names AMD GPUs and no instruction set, not even one that is
// not known.
func (t Triple) isPlainAMDGPU() bool {
	arch, _, _ := strings.Cut(t.text, "-")
	return len(arch) == len(amdgpu)
}
