package target

// FeatureNames returns the names of the features that target IDs can set, in alphabetical order.
func FeatureNames() []string {
	names := make([]string, len(features))
	for i := range features {
		names[i] = features[i].name
	}
	return names
}

// AMDGPUFeatures returns the names of the features that target IDs of an amdgcn
// processor may set, in alphabetical order, or false if the name is not the
// canonical name of a processor.
func AMDGPUFeatures(processor string) (features []string, ok bool) {
	p, ok := amdgcnProcessors.get(processor)
	return p.featureNames(), ok
}

// FixedFeatures returns the names of the features that the hardware of an amdgcn processor always has, in
// alphabetical order. A runtime searches for the processor without them, and newer compilers accept no
// target ID that names them.
func FixedFeatures(name string) []string {
	p, _ := amdgcnProcessors.get(name)
	p.features = p.fixed
	return p.featureNames()
}

// AMDGPUByMach returns the name of the amdgcn processor with a number, the low
// byte of the ELF flags. It returns "" for numbers that LLVM 22 to 24 do not
// define.
func AMDGPUByMach(mach uint8) string {
	is := func(p *processor) bool { return p.mach == mach }
	p, ok := amdgcnProcessors.find(is)
	if !ok {
		p, _ = removedProcessors.find(is)
	}
	return p.name
}

// CodeFamily returns the name of the family of AMD GPUs with code similar to that of a processor,
// such as gfx9 for gfx90a. Images of a family are smaller if they are compressed together. A
// processor that LLVM 22 to 24 do not define is a separate family. processor is the canonical name,
// without features.
func CodeFamily(processor string) string {
	if p, ok := amdgcnProcessors.get(processor); ok {
		return p.family
	}
	return processor
}
