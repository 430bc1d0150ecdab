package target

import (
	"fmt"
	"slices"
)

// CodeObject is the target of a code object as stated in its ELF header.
type CodeObject struct {
	// Version is the version of the code object, 2 to 6; 0 if the file states an
	// unknown version, or an operating system other than HSA.
	Version int
	// Mach is the processor, the low byte of e_flags. Processor is its name, "" if
	// it is unknown.
	Mach      uint8
	Processor string
	// Features are the states of the features.
	Features FeatureStates
	// Generic is the version of a generic processor, 1 or more for gfx9-generic
	// and the like, else 0.
	Generic int
}

// FeatureState is the state of a feature that a code object was compiled for.
type FeatureState uint8

// The states of features, numbered as in e_flags.
const (
	FeatureUnsupported FeatureState = iota // the processor does not have it
	FeatureAny                             // the code works with and without it
	FeatureOff
	FeatureOn
)

// FeatureStates has a state for each feature that target IDs can name, see FeatureNames. The zero value
// is that of a processor without features.
type FeatureStates [len(features)]FeatureState

// Of returns the state of a feature. A name that is not that of a feature is unsupported.
func (s FeatureStates) Of(name string) FeatureState {
	if i := featureIndex(name); i >= 0 {
		return s[i]
	}
	return FeatureUnsupported
}

// With returns a copy of s with another state of a feature, which must be one of FeatureNames.
func (s FeatureStates) With(name string, state FeatureState) FeatureStates {
	s[featureIndex(name)] = state
	return s
}

// featureIndex returns the index of a feature, or -1.
func featureIndex(name string) int {
	return slices.IndexFunc(features[:], func(f feature) bool { return f.name == name })
}

// FeatureStatesOf returns the states in e_flags, the flags of an ELF header, of a code object of a version.
// Versions before 4 state only which features are on. Other versions than 2 to 6 have none.
//
// A feature that the hardware of the processor always has is FeatureAny if it is on: compilers write it as
// unsupported, as any or as on, depending on their release, and mean the same.
func FeatureStatesOf(version int, flags uint32) (states FeatureStates) {
	p, _ := amdgcnProcessors.find(func(p *processor) bool { return p.mach == uint8(flags) })
	for i, f := range features {
		switch version {
		case 2, 3:
			if flags&f.flag != 0 {
				states[i] = FeatureOn
			}
		case 4, 5, 6:
			states[i] = FeatureState(flags >> f.shift & 3)
		}
		if states[i] == FeatureOn && p.fixed>>i&1 != 0 {
			states[i] = FeatureAny
		}
	}
	return states
}

// ID returns the target ID that the ELF flags state, such as
// gfx90a:sramecc+:xnack-. Unknown processors have a name of the form mach-0x7f.
func (t CodeObject) ID() string {
	id := TargetID{Processor: t.Processor}
	if id.Processor == "" {
		id.Processor = fmt.Sprintf("mach-0x%02x", t.Mach)
	}
	for i, state := range t.Features {
		if state == FeatureOn || state == FeatureOff {
			id.Features = append(id.Features, Feature{features[i].name, state == FeatureOn})
		}
	}
	return id.String()
}
