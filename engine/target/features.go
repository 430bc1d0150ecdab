package target

// AMDGPUFeatures returns the names of the features that target IDs of an amdgcn
// processor may set, in alphabetical order, and false for a name that is not
// the canonical one of a processor.
func AMDGPUFeatures(processor string) (features []string, ok bool) {
	p, ok := amdgcnProcessors[processor]
	return p.featureNames(), ok
}

// AMDGPUByMach returns the name of the amdgcn processor with a number, the low
// byte of the ELF flags; "" if no release of LLVM from 22 to 24 knows the number.
func AMDGPUByMach(mach uint8) string { return amdgcnMachs[mach] }

// CodeFamily returns the name of the AMD GPUs whose code resembles that of a processor, such as gfx9 for gfx90a:
// compressed together, their images become smaller. A processor that no release of LLVM from 22 to 24 knows is a family
// of its own. processor is the canonical name, without features.
func CodeFamily(processor string) string {
	if p, ok := amdgcnProcessors[processor]; ok {
		return p.family
	}
	return processor
}
