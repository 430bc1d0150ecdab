package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Operation is the purpose of a list of targets.
type Operation int

// The operations that have rules for their targets.
const (
	Bundling Operation = iota
	Unbundling
)

// CheckTargets parses the targets of a bundle or of requests and checks them
// like clang-offload-bundler, in the same order:
// duplicates, form, kind and triple, conflicting target IDs, number of hosts. It
// then checks for faults in a bundle that LLVM does not report: conflicts in the
// opposite direction, and targets that are equal in different spellings.
//
// parse is ParseLLVM for the behaviour of LLVM, or a function that calls Parse
// or Complete. Errors are of type *DuplicateError, *ConflictError, *HostError,
// *InvalidError, or come from parse. Target IDs are not checked further,
// except by Complete.
func CheckTargets(targets []string, parse func(string) (ID, error), op Operation) ([]ID, error) {
	ids := make([]ID, 0, len(targets))
	seen := make(map[string]bool, len(targets))
	hosts, hipOnly := 0, true
	for _, s := range targets {
		if seen[s] {
			return nil, &DuplicateError{First: s, Second: s}
		}
		seen[s] = true
		id, err := parse(s)
		if err != nil {
			return nil, err
		}
		if err := id.validate(); err != nil {
			return nil, err
		}
		if id.Kind == Host {
			hosts++
		}
		if id.Kind != HIP && id.Kind != HIPv4 {
			hipOnly = false
		}
		ids = append(ids, id)
	}
	if err := llvmConflict(ids); err != nil {
		return nil, err
	}
	if op == Bundling && hosts != 1 && !hipOnly || hosts > 1 {
		return nil, &HostError{hosts}
	}
	if op == Unbundling {
		return ids, nil // such requests are harmless
	}
	if err := conflictIn(ids); err != nil {
		return nil, err
	}
	if err := duplicate(ids); err != nil {
		return nil, err
	}
	return ids, nil
}

// Check is CheckTargets for targets that were parsed. The operations of an
// engine.Session call it.
func (op Operation) Check(ids []ID) error {
	texts, parsed := make([]string, len(ids)), make(map[string]ID, len(ids))
	for i, id := range ids {
		if texts[i] = id.Text; id.Text == "" {
			texts[i] = id.String()
		}
		parsed[texts[i]] = id
	}
	_, err := CheckTargets(texts, func(s string) (ID, error) { return parsed[s], nil }, op)
	return err
}

// DuplicateError reports two equal targets.
type DuplicateError struct {
	First, Second string // as given
	Both          string // canonical form of both, if the spellings differ
}

// Error returns the targets, and their canonical form if the
// spellings differ.
func (e *DuplicateError) Error() string {
	if e.Both == "" {
		return fmt.Sprintf("target %q is named twice", e.First)
	}
	return fmt.Sprintf("targets %q and %q are the same: %s", e.First, e.Second, e.Both)
}

// HostError reports a list of targets with several host targets, or without
// one.
type HostError struct {
	Count int
}

// Error returns the number that was found.
func (e *HostError) Error() string {
	return fmt.Sprintf("found %d host targets, expected one", e.Count)
}

// ConflictError reports two targets that must not be in one bundle: either all
// entries for a processor specify a feature, or none does.
type ConflictError struct {
	First, Second string // entry IDs, in the order of their target IDs
	Processor     string
	Feature       string // specified by only one of the two
}

// Error returns the two entries and the feature.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s and %s cannot be in one bundle: either all entries for %s set %s, or none", e.First, e.Second, e.Processor, e.Feature)
}

// conflictIn returns two entries that conflict as *ConflictError, or nil. If LLVM
// reports a conflict, it is the same pair; LLVM does not report conflicts in
// which a feature is missing in the second of two target IDs, in string order.
func conflictIn(ids []ID) error {
	if err := llvmConflict(ids); err != nil {
		return err
	}
	for _, g := range groups(ids, func(id ID) (string, string) {
		id = id.Canonical()
		return string(id.Kind) + "-" + id.Triple.String(), id.TargetID
	}) {
		if c := conflict(g.targetIDs, true); c != nil {
			return c.in(g.name)
		}
	}
	return nil
}

// ConflictingIDs returns a conflict among stored entry IDs, or nil if there is
// none. Like clang-offload-bundler -check-input-archive, it treats the part
// before the first ':' as the processor.
func ConflictingIDs(ids []string) *ConflictError {
	if c := conflict(ids, false); c != nil {
		return c
	}
	return conflict(ids, true)
}

// llvmConflict implements the check of clang-offload-bundler: for each kind and
// triple as given, it compares the target IDs that LLVM recognizes.
func llvmConflict(ids []ID) error {
	for _, g := range groups(ids, func(id ID) (string, string) {
		return string(id.Kind) + "-" + id.Triple.String(), id.llvm().TargetID
	}) {
		if c := conflict(g.targetIDs, false); c != nil {
			return c.in(g.name)
		}
	}
	return nil
}

// in completes two target IDs to entry IDs.
func (e *ConflictError) in(group string) *ConflictError {
	e.First = group + "-" + e.First
	e.Second = group + "-" + e.Second
	return e
}

// group holds the target IDs of one kind and triple.
type group struct {
	name      string
	targetIDs []string
}

// groups divides IDs into groups, in the order of their names.
func groups(ids []ID, key func(ID) (name, targetID string)) []group {
	m := make(map[string][]string)
	for _, id := range ids {
		name, t := key(id)
		m[name] = append(m[name], t)
	}
	var gs []group
	for _, name := range slices.Sorted(maps.Keys(m)) {
		gs = append(gs, group{name, m[name]})
	}
	return gs
}

// conflict returns the first target ID, in string order, with a feature that
// the first target ID of its processor does not specify. If both is set, a
// missing feature that the first one specifies is also a conflict.
func conflict(targetIDs []string, both bool) *ConflictError {
	first := make(map[string]string) // by processor
	for _, t := range slices.Sorted(slices.Values(targetIDs)) {
		p := processorOf(t)
		f, ok := first[p]
		if !ok {
			first[p] = t
			continue
		}
		feature, found := notIn(t, f)
		if !found && both {
			feature, found = notIn(f, t)
		}
		if found {
			return &ConflictError{First: f, Second: t, Processor: p, Feature: feature}
		}
	}
	return nil
}

// notIn returns a feature that target ID a specifies and b does not.
func notIn(a, b string) (string, bool) {
	names := featuresNamed(b)
	for _, f := range featuresNamed(a) {
		if !slices.Contains(names, f) {
			return f, true
		}
	}
	return "", false
}

// featuresNamed returns the names of the features of a target ID, which may be
// malformed.
func featuresNamed(targetID string) []string {
	_, rest, _ := strings.Cut(targetID, ":")
	var names []string
	for _, f := range strings.Split(rest, ":") {
		if f != "" {
			name, on := strings.CutSuffix(f, "+")
			if !on {
				name = strings.TrimSuffix(f, "-")
			}
			names = append(names, name)
		}
	}
	return names
}

// duplicate reports two targets with the same canonical form.
func duplicate(ids []ID) error {
	seen := make(map[string]string, len(ids))
	for _, id := range ids {
		name := id.Canonical().Text
		if first, ok := seen[name]; ok {
			return &DuplicateError{First: first, Second: id.Text, Both: name}
		}
		seen[name] = id.Text
	}
	return nil
}
