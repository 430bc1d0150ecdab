package target

import "strings"

// amdgpu is the architecture of AMD GPUs in LLVM 23 and later. An instruction set may follow,
// as in amdgpu9.0a. The older name is amdgcn, without an instruction set.
const amdgpu = "amdgpu"

// parseISA returns the instruction set that follows amdgpu: that of a processor, such as 9.0a, or of a
// family of processors, such as 9; otherwise "".
func parseISA(s string) SubArch {
	if family, ok := isaAliases.get(s); ok {
		s = family
	}
	if isaFamily(s) != "" {
		return SubArch(s)
	}
	return ""
}

// isaFamily returns the instruction set of the family of one that may follow amdgpu in a triple, or
// "" for others.
func isaFamily(isa string) string {
	p, _ := amdgcnProcessors.find(func(p *processor) bool { return p.isa == isa || p.isaFamily == isa })
	return p.isaFamily
}

// isFamily reports whether an instruction set is the one of a family of
// processors.
func isFamily(isa SubArch) bool { return isaFamily(string(isa)) == string(isa) }

// sameISA reports whether code for the instruction sets of two AMD GPU triples is interchangeable:
// they are equal, one is the family of the other, or one triple has none. A name that LLVM does
// not recognise, such as amdgpu9.99, does not count as having none.
func (t Triple) sameISA(o Triple) bool {
	switch {
	case t.SubArch == "":
		return t.isPlainAMDGPU()
	case o.SubArch == "":
		return o.isPlainAMDGPU()
	case t.SubArch == o.SubArch:
		return true
	}
	family := isaFamily(string(t.SubArch))
	return family == isaFamily(string(o.SubArch)) && (isFamily(t.SubArch) || isFamily(o.SubArch))
}

// isPlainAMDGPU reports whether the triple is for AMD GPUs and has no instruction set, not even an
// unknown one.
func (t Triple) isPlainAMDGPU() bool {
	arch, _, _ := strings.Cut(t.text, "-")
	return len(arch) == len(amdgpu)
}
