package target

import (
	"fmt"
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
	// XNACK and SRAMECC are the states of the features.
	XNACK, SRAMECC FeatureState
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

// ID returns the target ID that the ELF flags state, such as
// gfx90a:sramecc+:xnack-. Unknown processors have a name of the form mach-0x7f.
func (t CodeObject) ID() string {
	id := TargetID{Processor: t.Processor}
	if id.Processor == "" {
		id.Processor = fmt.Sprintf("mach-0x%02x", t.Mach)
	}
	for i, state := range []FeatureState{t.SRAMECC, t.XNACK} {
		if state == FeatureOn || state == FeatureOff {
			id.Features = append(id.Features, Feature{featureNames[i], state == FeatureOn})
		}
	}
	return id.String()
}
