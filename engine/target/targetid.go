package target

import (
	"fmt"
	"slices"
	"strings"
)

// Feature is a setting of a target ID: xnack+ or sramecc-.
type Feature struct {
	Name string
	On   bool
}

// String returns the feature in the form of target IDs.
func (f Feature) String() string {
	if f.On {
		return f.Name + "+"
	}
	return f.Name + "-"
}

// TargetID is a processor and the settings of its code. Code without a setting
// works with both of its states.
type TargetID struct {
	Processor string
	Features  []Feature
}

// TargetIDError reports a target ID that is malformed or invalid for its
// triple.
type TargetIDError struct {
	TargetID string
	Fault    TargetIDFault
	Feature  string // the feature at fault, as given or by name; may be empty
	Reason   string // description of the fault
}

// TargetIDFault is the kind of fault of a target ID.
type TargetIDFault int

// The faults. ParseTargetID reports the first three.
const (
	NoProcessor     TargetIDFault = iota // features without a processor
	NoSetting                            // a feature that does not end with + or -
	RepeatedFeature                      // a feature with two settings
	Unsupported                          // a processor or feature that the target does not have
)

// Error returns the target ID and the reason.
func (e *TargetIDError) Error() string {
	return fmt.Sprintf("target ID %q: %s", e.TargetID, e.Reason)
}

// ParseTargetID reads "processor[:feature(+|-)]...". It checks only the form;
// CheckTargetID checks the processor. Errors are of type *TargetIDError.
func ParseTargetID(s string) (TargetID, error) {
	processor, rest, _ := strings.Cut(s, ":")
	t := TargetID{Processor: processor}
	if processor == "" && s != "" {
		return t, &TargetIDError{s, NoProcessor, "", `there is no processor before the first ":"`}
	}
	for rest != "" {
		var text string
		text, rest, _ = strings.Cut(rest, ":")
		name, on := strings.CutSuffix(text, "+")
		if !on {
			var off bool
			if name, off = strings.CutSuffix(text, "-"); !off {
				return t, &TargetIDError{s, NoSetting, text, fmt.Sprintf(`%q does not end in "+" or "-"`, text)}
			}
		}
		if _, twice := t.feature(name); twice {
			return t, &TargetIDError{s, RepeatedFeature, name, fmt.Sprintf("%q occurs twice", name)}
		}
		t.Features = append(t.Features, Feature{name, on})
	}
	return t, nil
}

// String returns the target ID with its features in their current order.
func (t TargetID) String() string {
	var b strings.Builder
	b.WriteString(t.Processor)
	for _, f := range t.Features {
		b.WriteByte(':')
		b.WriteString(f.String())
	}
	return b.String()
}

// feature returns the feature with the given name.
func (t TargetID) feature(name string) (Feature, bool) {
	i := slices.IndexFunc(t.Features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		return Feature{}, false
	}
	return t.Features[i], true
}

// Canonical returns the canonical form of the target ID for processors of the
// triple: aliases are replaced (fiji by gfx803), and features are in
// alphabetical order, as in LLVM.
func (t TargetID) Canonical(triple Triple) TargetID {
	if p, ok := lookupProcessor(triple, t.Processor); ok {
		t.Processor = p.name
	}
	t.Features = slices.SortedFunc(slices.Values(t.Features), func(a, b Feature) int {
		return strings.Compare(a.Name, b.Name)
	})
	return t
}

// CheckTargetID reports a target ID that is malformed or invalid for the
// triple, because its processor does not have a feature or is from another
// vendor. It accepts an empty target ID and processors that LLVM 22 does not
// define. Errors are of type *TargetIDError.
func CheckTargetID(triple Triple, s string) error {
	t, err := ParseTargetID(s)
	if err != nil || s == "" {
		return err
	}
	fail := func(feature, format string, args ...any) error {
		return &TargetIDError{s, Unsupported, feature, fmt.Sprintf(format, args...)}
	}
	amd, nvidia := triple.isAMDGPU(), triple.Arch == "nvptx" || triple.Arch == "nvptx64"
	if amd && strings.HasPrefix(t.Processor, "sm_") || nvidia && strings.HasPrefix(t.Processor, "gfx") {
		return fail("", "%s is not a processor of %s", t.Processor, triple)
	}
	p, known := lookupProcessor(triple, t.Processor)
	if amd && !known {
		return nil
	}
	f, illegal := p.illegal(t, newest)
	switch {
	case !illegal:
		return nil
	case p.features == 0:
		return fail(f.Name, "%s has no features to set, so not %q", t.Processor, f)
	}
	return fail(f.Name, "%s has no feature %q, only %s", t.Processor, f.Name, strings.Join(p.featureNames(), " and "))
}

// newest stands for the newest release of LLVM that the tables know.
const newest = 0

// illegal returns a feature of t that p does not have in a release of LLVM.
func (p processor) illegal(t TargetID, release Release) (Feature, bool) {
	for _, e := range p.earlier {
		if release.until(e.until) {
			p.features = e.features
			break
		}
	}
	legal := p.featureNames()
	for _, f := range t.Features {
		if !slices.Contains(legal, f.Name) {
			return f, true
		}
	}
	return Feature{}, false
}

// featureNames returns the names of the features of p in alphabetical order.
func (p processor) featureNames() []string {
	var names []string
	for i := range features {
		if p.features&(1<<i) != 0 {
			names = append(names, features[i].name)
		}
	}
	return names
}

// lookupProcessor finds an AMD GPU by its name or an alias. Other triples have no
// tables, so nothing is found.
func lookupProcessor(triple Triple, name string) (processor, bool) {
	switch triple.Arch {
	case ArchAMDGCN:
		return amdgcnProcessors.named(name)
	case ArchR600:
		return r600Processors.named(name)
	}
	return processor{}, false
}

// isOffloadArch reports whether LLVM accepts the processor of an entry ID.
func isOffloadArch(name string) bool {
	_, ok := amdgcnProcessors.get(name)
	return ok || slices.Contains(nvptxProcessors, name) || slices.Contains(otherOffloadArchs, name)
}

// looksLikeProcessor reports whether s, which is a processor or an environment,
// is a processor. It recognises GPU names that LLVM does not define by their
// form.
func looksLikeProcessor(triple Triple, s string) bool {
	for _, prefix := range []string{"gfx", "sm_"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return true
		}
	}
	_, known := lookupProcessor(triple, s)
	return known || s == spirvProcessor
}
