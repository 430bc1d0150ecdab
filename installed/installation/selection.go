package installation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/rocmdata"
	"github.com/rules-offload/rules_offload/internal/prune"
)

// Selection selects the GPUs that an installation keeps.
type Selection struct {
	// Keep and Drop name targets, as in engine.PruneOptions; at most one of them is set. Without both,
	// everything is kept.
	Keep, Drop []string

	seen []string // target IDs, processors and families, each once
}

// Code reports whether code for a target ID is kept.
func (s *Selection) Code(id string) bool {
	s.Saw(id)
	named := func(name string) bool { return prune.Selects(name, id) }
	if len(s.Keep) > 0 {
		return slices.ContainsFunc(s.Keep, named)
	}
	return !slices.ContainsFunc(s.Drop, named)
}

// Data reports whether the data for a GPU or a family is kept, see rocmdata.GPU. Data for a processor is
// kept if one of its variants is, and data for a family if one of its processors is.
func (s *Selection) Data(gpu string) bool {
	s.Saw(gpu)
	if len(s.Keep) > 0 {
		return slices.ContainsFunc(s.Keep, func(name string) bool { return serves(gpu, name) })
	}
	if len(s.Drop) == 0 {
		return true
	}
	return slices.ContainsFunc(processors(gpu), func(processor string) bool {
		id := processor + strings.TrimPrefix(gpu, withoutFeatures(gpu))
		return !slices.ContainsFunc(s.Drop, func(name string) bool { return prune.Selects(name, id) })
	})
}

// Saw notes that the installation has code or data for a target ID or a family.
func (s *Selection) Saw(id string) {
	if !slices.Contains(s.seen, id) {
		s.seen = append(s.seen, id)
	}
}

// Missing returns the names in Keep or Drop for which the installation has neither code nor data, with what
// it has.
func (s *Selection) Missing() (all []string) {
	for _, name := range slices.Concat(s.Keep, s.Drop) {
		if !slices.ContainsFunc(s.seen, func(id string) bool { return prune.Selects(name, id) || serves(id, name) }) {
			all = append(all, fmt.Sprintf("no code for %s: found %s", name, strings.Join(slices.Sorted(slices.Values(s.seen)), ", ")))
		}
	}
	return all
}

// withoutFeatures returns the processor or family in a target ID.
func withoutFeatures(id string) string {
	processor, _, _ := strings.Cut(id, ":")
	return processor
}

// processors returns the processors in a family, or the processor in a target ID.
func processors(gpu string) (list []string) {
	family := withoutFeatures(gpu)
	for _, p := range target.Processors() {
		if rocmdata.InFamily(p, family) {
			list = append(list, p)
		}
	}
	if len(list) == 0 { // one that is not in the table
		return []string{family}
	}
	return list
}

// serves reports whether the data for a GPU or a family serves a target with a name: a processor, a target
// ID or an entry ID.
func serves(gpu, name string) bool {
	if id, err := target.Parse(name); err == nil && id.TargetID != "" {
		name = id.TargetID
	}
	processor := withoutFeatures(name)
	family := withoutFeatures(gpu)
	if family != processor && !rocmdata.InFamily(processor, family) {
		return false
	}
	// Features that both name must agree.
	for feature := range strings.SplitSeq(strings.TrimPrefix(gpu, family), ":") {
		if feature != "" && strings.Contains(name+":", ":"+opposite(feature)+":") {
			return false
		}
	}
	return true
}

// opposite returns a feature in the other state: xnack- for xnack+.
func opposite(feature string) string {
	last := len(feature) - 1
	if feature[last] == '+' {
		return feature[:last] + "-"
	}
	return feature[:last] + "+"
}
