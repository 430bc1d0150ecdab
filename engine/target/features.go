package target

// AMDGPUFeatures returns the names of the features that target IDs of an amdgcn
// processor may set, in alphabetical order, and false for a name that is not
// the canonical one of a processor.
func AMDGPUFeatures(processor string) (features []string, ok bool) {
	p, ok := amdgcnProcessors[processor]
	return p.featureNames(), ok
}
