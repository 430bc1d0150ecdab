package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Operation is what a list of targets is for.
type Operation int

// The operations that have rules for their targets.
const (
	Bundling Operation = iota
	Unbundling
)

// CheckTargets reads the targets of a bundle or of requests and checks them as
// clang-offload-bundler does, in its order and with its words: duplicates, form,
// kind and triple, conflicting target IDs, number of hosts. Behind that come
// the mistakes in a bundle that LLVM misses: conflicts seen from the other side,
// and targets that are the same in another spelling.
//
// parse is ParseLLVM for the behaviour of LLVM, or a function that calls Parse
// or Complete. Errors are of type *DuplicateError, *ConflictError, *HostError,
// or come from parse and ID.Validate. Target IDs are not checked beyond that,
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
		if err := id.Validate(); err != nil {
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
		return ids, nil // requests spoil nothing
	}
	if err := Conflict(ids); err != nil {
		return nil, err
	}
	if err := duplicate(ids); err != nil {
		return nil, err
	}
	return ids, nil
}

// DuplicateError is two targets that are the same.
type DuplicateError struct {
	First, Second string // as given
	Both          string // what both are, if the spellings differ
}

// Error returns the words of clang-offload-bundler, and more if the spellings differ.
func (e *DuplicateError) Error() string {
	const text = "Duplicate targets are not allowed"
	if e.Both == "" {
		return text
	}
	return fmt.Sprintf("%s: '%s' and '%s' are both '%s'", text, e.First, e.Second, e.Both)
}

// HostError is a list of targets with too many host targets, or without one.
type HostError struct {
	Count int
}

// Error returns the words of clang-offload-bundler.
func (e *HostError) Error() string {
	return fmt.Sprintf("expecting exactly one host target but got %d", e.Count)
}

// ConflictError is two targets that must not be in one bundle: of all entries
// for a processor, either each names a feature or none does.
type ConflictError struct {
	First, Second string // entry IDs, in the order of their target IDs
	Processor     string
	Feature       string // which only one of the two names
}

// Error returns the words of clang-offload-bundler.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("Cannot bundle inputs with conflicting targets: '%s' and '%s'", e.First, e.Second)
}

// Conflict returns two entries that conflict as *ConflictError, or nil. Where
// LLVM sees a conflict, it is the pair that LLVM names; it misses those in which
// the second of two target IDs, in the order of strings, lacks a feature.
func Conflict(ids []ID) error {
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

// ConflictingIDs looks for a conflict among entry IDs as they are stored, as
// clang-offload-bundler -check-input-archive does: what is before the first ':'
// counts as the processor. It returns nil if there is none.
func ConflictingIDs(ids []string) *ConflictError {
	if c := conflict(ids, false); c != nil {
		return c
	}
	return conflict(ids, true)
}

// llvmConflict is the check of clang-offload-bundler: by kind and triple as
// given, with the target IDs that LLVM knows.
func llvmConflict(ids []ID) error {
	for _, g := range groups(ids, func(id ID) (string, string) {
		return string(id.Kind) + "-" + id.Triple.String(), id.LLVM().TargetID
	}) {
		if c := conflict(g.targetIDs, false); c != nil {
			return c.in(g.name)
		}
	}
	return nil
}

// in completes the names of two target IDs to entry IDs.
func (e *ConflictError) in(group string) *ConflictError {
	e.First = group + "-" + e.First
	e.Second = group + "-" + e.Second
	return e
}

// group is the target IDs of one kind and triple.
type group struct {
	name      string
	targetIDs []string
}

// groups sorts IDs into groups, in the order of their names.
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

// conflict returns the first target ID, in the order of strings, that names a
// feature which the first one of its processor does not name. If both is set,
// lacking a feature that the first one names counts as well.
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

// notIn returns a feature that the target ID a names, but b does not.
func notIn(a, b string) (string, bool) {
	names := featuresNamed(b)
	for _, f := range featuresNamed(a) {
		if !slices.Contains(names, f) {
			return f, true
		}
	}
	return "", false
}

// featuresNamed returns the names of the features of a target ID, which need not be well formed.
func featuresNamed(targetID string) []string {
	_, rest, _ := strings.Cut(targetID, ":")
	var names []string
	for _, f := range strings.Split(rest, ":") {
		if f != "" {
			names = append(names, strings.TrimRight(f, "+-"))
		}
	}
	return names
}

// duplicate reports two targets that have one canonical form.
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
