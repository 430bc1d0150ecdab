package coverage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// GPU is a GPU to check.
type GPU struct {
	Name  string // as given
	Modes []Mode // the combinations of its feature states, - before +
}

// Mode is a GPU with a state, on or off, for every feature.
type Mode struct {
	Processor string
	Features  target.FeatureStates // Unsupported, Off or On
}

// String returns the name of the mode, such as gfx942:sramecc+:xnack-.
func (m Mode) String() string {
	return target.CodeObject{Processor: m.Processor, Features: m.Features}.ID()
}

// GenericOf returns the generic processor that the runtime looks up for a processor, such as
// gfx11-generic; "" for none.
func GenericOf(processor string) string {
	switch processor {
	case "gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c":
		return "gfx9-generic"
	case "gfx942", "gfx950":
		return "gfx9-4-generic"
	case "gfx1010", "gfx1011", "gfx1012", "gfx1013":
		return "gfx10-1-generic"
	case "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036":
		return "gfx10-3-generic"
	case "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153":
		return "gfx11-generic"
	case "gfx1200", "gfx1201":
		return "gfx12-generic"
	}
	return ""
}

// ParseGPU parses the name of a GPU: a processor and optional feature settings.
// A feature without a setting stands for both of its states.
func ParseGPU(name string) (GPU, error) {
	fail := func(format string, args ...any) (GPU, error) {
		return GPU{}, fmt.Errorf("%q is not a GPU: %s", name, fmt.Sprintf(format, args...))
	}
	id, err := target.ParseTargetID(name)
	if err != nil {
		return GPU{}, fmt.Errorf("%q is not a GPU: %w", name, err)
	}
	features, ok := target.AMDGPUFeatures(id.Processor)
	fixed := target.FixedFeatures(id.Processor)
	features = slices.DeleteFunc(features, func(name string) bool { return slices.Contains(fixed, name) })
	switch {
	case !ok:
		return fail("found processor %q, expected one such as gfx90a or gfx1100", id.Processor)
	case strings.HasSuffix(id.Processor, "-generic"):
		return fail("%s is a target for compilation; name a processor that runs the code", id.Processor)
	}
	states := make(map[string][]target.FeatureState)
	for _, f := range features {
		states[f] = []target.FeatureState{target.FeatureOff, target.FeatureOn}
	}
	for _, f := range id.Features {
		if slices.Contains(fixed, f.Name) {
			return fail("%s always has %s; name it %s", id.Processor, f.Name, id.Processor)
		}
		if !slices.Contains(features, f.Name) {
			return fail("%s has no feature %q", id.Processor, f.Name)
		}
		states[f.Name] = []target.FeatureState{target.FeatureOff}
		if f.On {
			states[f.Name] = []target.FeatureState{target.FeatureOn}
		}
	}
	modes := []Mode{{Processor: id.Processor}}
	for _, f := range features {
		var more []Mode
		for _, m := range modes {
			for _, state := range states[f] {
				more = append(more, Mode{m.Processor, m.Features.With(f, state)})
			}
		}
		modes = more
	}
	return GPU{Name: name, Modes: modes}, nil
}

// fixedFeature returns a feature that a target ID sets, although the hardware always has it, or "". The runtime does
// not find code under such an ID, because it searches for the processor alone.
func fixedFeature(id string) string {
	parsed, err := target.ParseTargetID(id)
	if err != nil {
		return ""
	}
	fixed := target.FixedFeatures(parsed.Processor)
	for _, f := range parsed.Features {
		if slices.Contains(fixed, f.Name) {
			return f.Name
		}
	}
	return ""
}

// searched is a target ID that the runtime asks archives for.
type searched struct {
	id  string
	how How
}

// searches returns the target IDs for a mode, in the order of the runtime: the processor and then
// its generic processor, each with all features, with fewer, and without any. A generic processor
// that does not have a feature of the mode is left out, as in bundles.
func (m Mode) searches() []searched {
	const triple = "hip-amdgcn-amd-amdhsa--"
	var list []searched
	add := func(processor string, how How) {
		full := Mode{processor, m.Features}.String()
		if id, err := target.Parse(triple + full); err != nil || target.CheckTargetID(id.Triple, full) != nil {
			return
		}
		for _, fewer := range m.fewer() {
			fewer.Processor = processor
			if s := (searched{fewer.String(), how}); !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	add(m.Processor, Native)
	if generic := GenericOf(m.Processor); generic != "" {
		add(generic, Generic)
	}
	return list
}

// fewer returns the mode with all features, with fewer and without any, in the order of the runtime. The last
// features of target.FeatureNames are left out first.
func (m Mode) fewer() []Mode {
	modes := []Mode{m}
	for _, f := range slices.Backward(target.FeatureNames()) {
		for _, mode := range modes[:len(modes):len(modes)] {
			mode.Features = mode.Features.With(f, target.FeatureUnsupported)
			modes = append(modes, mode)
		}
	}
	return modes
}
