package target

import (
	"fmt"
	"strings"
)

// Verdict is the reason why a stored code object does or does not match a
// request.
type Verdict int

// The verdicts, in the order in which they are checked.
const (
	// ExactMatch: kind and target ID are equal, and the triples are compatible.
	ExactMatch Verdict = iota
	// KindOrTripleMismatch: another kind, or an incompatible triple.
	KindOrTripleMismatch
	// ProcessorMismatch: another processor, or an invalid target ID.
	ProcessorMismatch
	// MoreFeatures: the code object specifies more settings than the request.
	MoreFeatures
	// FeatureUnset: it specifies a setting that the request does not.
	FeatureUnset
	// FeatureDiffers: it specifies the opposite setting.
	FeatureDiffers
	// TargetIDsCompatible: the request specifies settings that the code object
	// does not.
	TargetIDsCompatible
)

// verdictTexts are the texts of clang-offload-bundler's debug output.
var verdictTexts = [...]string{
	ExactMatch:           "Compatible: Exact match:",
	KindOrTripleMismatch: "Incompatible: Kind/Triple mismatch",
	ProcessorMismatch:    "Incompatible: Processor mismatch",
	MoreFeatures:         "Incompatible: CodeObject has more features than target",
	FeatureUnset:         "Incompatible: Value of CodeObject's non-ANY feature is not matching with Target feature's ANY value",
	FeatureDiffers:       "Incompatible: Value of CodeObject's non-ANY feature is not matching with Target feature's non-ANY value",
	TargetIDsCompatible:  "Compatible: Target IDs are compatible",
}

// Compatible reports whether the code object matches the request.
func (v Verdict) Compatible() bool { return v == ExactMatch || v == TargetIDsCompatible }

// Match is the result of comparing a stored entry with a request.
type Match struct {
	Verdict
	Entry   ID
	Request ID
}

// String describes the match in one line without newline, like
// clang-offload-bundler with -debug-only=CodeObjectCompatibility.
func (m Match) String() string {
	return fmt.Sprintf("%s \t[CodeObject: %s]\t:\t[Target: %s]", verdictTexts[m.Verdict], m.Entry, m.Request)
}

// Rules are the rules for comparing stored entries with requests. The zero
// value has the rules of clang-offload-bundler without options.
type Rules struct {
	// HIPOpenMP makes the kinds hip and hipv4 compatible with openmp.
	HIPOpenMP bool
	// Release decides the order in which requests are visited, see Release.Order, and which
	// features processors have: for LLVM 22, gfx1250 has no xnack.
	Release Release
}

// Match reports whether the stored entry matches the request. It uses the
// standard form of the request and the stored form of the entry. An entry ID of
// an older release matches in both interpretations: the original one, and that
// of LLVM 22.
func (r Rules) Match(entry, request ID) Match {
	return r.match(entry, request.standard())
}

// match is Match for a request whose triple is in standard form.
func (r Rules) match(entry, request ID) Match {
	old, ok := parseOld(entry.Text)
	if !ok {
		return r.compare(entry, request)
	}
	if oldRequest, ok := parseOld(request.Text); ok {
		return r.compare(old, oldRequest.standard())
	}
	m := r.compare(old, request)
	if !m.Compatible() {
		if strict, err := ParseLLVM(entry.Text); err == nil {
			if s := r.compare(strict, request); s.Compatible() {
				return s
			}
		}
	}
	return m
}

func (r Rules) compare(entry, request ID) Match {
	return Match{r.verdict(entry, request), entry, request}
}

func (r Rules) verdict(entry, request ID) Verdict {
	triples := entry.Triple.CompatibleWith(request.Triple)
	if entry.Kind == request.Kind && triples && entry.TargetID == request.TargetID {
		return ExactMatch
	}
	if !triples || !r.kindsCompatible(entry.Kind, request.Kind) {
		return KindOrTripleMismatch
	}
	e, ok1 := r.matchable(entry)
	q, ok2 := r.matchable(request)
	switch {
	case !ok1 || !ok2 || e.Processor != q.Processor:
		return ProcessorMismatch
	case len(e.Features) > len(q.Features):
		return MoreFeatures
	}
	for _, f := range e.Features {
		if g, ok := q.feature(f.Name); !ok {
			return FeatureUnset
		} else if g != f {
			return FeatureDiffers
		}
	}
	return TargetIDsCompatible
}

func (r Rules) kindsCompatible(entry, request Kind) bool {
	switch {
	case entry == request:
		return true
	case entry == HIP && request == HIPv4, entry == HIPv4 && request == HIP:
		return true
	case !r.HIPOpenMP:
		return false
	}
	return entry == OpenMP && startsWithHIP(request) || request == OpenMP && startsWithHIP(entry)
}

// startsWithHIP reports whether a kind begins with hip, ignoring case, as in
// LLVM.
func startsWithHIP(k Kind) bool {
	return len(k) >= 3 && strings.EqualFold(string(k[:3]), "hip")
}

// matchable returns the canonical target ID of an entry, and reports whether it
// can be compatible with a different one: it must be present and well formed,
// and its processor must support its features.
func (r Rules) matchable(id ID) (TargetID, bool) {
	t, err := ParseTargetID(id.TargetID)
	if err != nil || t.Processor == "" {
		return t, false
	}
	if !id.Triple.isAMDGPU() {
		return t, len(t.Features) == 0
	}
	p, known := lookupProcessor(id.Triple, t.Processor)
	if !known {
		// Names of other architectures match only themselves. Unknown processors
		// follow the rules with any features.
		return t.Canonical(id.Triple), !isOffloadArch(t.Processor)
	}
	_, illegal := p.illegal(t, r.Release)
	return t.Canonical(id.Triple), !illegal
}

// Serve returns for each request the index of the stored entry that it selects,
// or -1. entries are in the order in which the bundle is read (for binary
// bundles, that of Order). An entry may be selected for several requests. An
// exact match takes precedence; otherwise the selection is that of
// clang-offload-bundler, which assigns each entry to the first compatible
// request in Order. If trace is not nil, it is called with every comparison.
func (r Rules) Serve(entries, requests []ID, trace func(Match)) []int {
	if trace == nil {
		trace = func(Match) {}
	}
	names := make([]string, len(requests))
	standard := make([]ID, len(requests))
	for i, q := range requests {
		names[i], standard[i] = q.String(), q.standard()
	}
	served := make([]int, len(requests))
	best := make([]Match, len(requests))
	for i := range served {
		served[i] = -1
		best[i].Verdict = KindOrTripleMismatch
	}
	open := r.Release.Order(names)
	for e, entry := range entries {
		for k, i := range open {
			m := r.match(entry, standard[i])
			trace(m)
			if m.Compatible() {
				served[i], best[i] = e, m
				open = append(open[:k], open[k+1:]...)
				break
			}
		}
	}
	for i, request := range standard {
		before, rank := served[i], best[i].rank()
		for e, entry := range entries {
			if rank == sameName {
				break
			}
			if m := r.match(entry, request); m.rank() > rank {
				served[i], best[i], rank = e, m, m.rank()
			}
		}
		if served[i] != before {
			trace(best[i])
		}
	}
	return served
}

// The ranks of a match. The highest rank takes precedence.
const (
	notCompatible = iota
	compatible
	exact
	sameName // exact, and not only equal for LLVM
)

func (m Match) rank() int {
	switch {
	case m.Verdict == ExactMatch && m.Entry.String() == m.Request.String():
		return sameName
	case m.Verdict == ExactMatch:
		return exact
	case m.Compatible():
		return compatible
	}
	return notCompatible
}
