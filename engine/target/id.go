// Package target implements the names of offloading targets as in LLVM 22.1.8:
// bundle entry IDs ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+"), target triples and
// target IDs. It determines which of them may be bundled together, which code
// object matches which request, and the order in which LLVM's tools visit them.
package target

import (
	"fmt"
	"strings"
)

// Kind is the offload kind, the first field of an entry ID. Case matters.
type Kind string

// The offload kinds that entries can be bundled for.
const (
	Host   Kind = "host"
	OpenMP Kind = "openmp"
	HIP    Kind = "hip"
	HIPv4  Kind = "hipv4"
)

// Valid reports whether k is one of the four kinds.
func (k Kind) Valid() bool {
	return k == Host || k == OpenMP || k == HIP || k == HIPv4
}

// ID is a bundle entry ID: kind-arch-vendor-os-env[-targetid].
type ID struct {
	// Text is the ID as given.
	Text string
	Kind Kind
	// Triple always has four fields; the last may be empty.
	Triple Triple
	// TargetID is the processor and its features, as given. It may be empty.
	TargetID string
}

// ParseLLVM parses an entry ID like LLVM 22: four triple fields, followed by an
// optional target ID. LLVM then drops target IDs with an unknown processor;
// ParseLLVM does not. The error for an ID with too few fields is a
// *FormatError. ParseLLVM accepts an unknown kind or triple;
// CheckTargets reports them.
func ParseLLVM(s string) (ID, error) {
	fields := strings.SplitN(s, "-", 6)
	if len(fields) < 5 {
		return ID{}, &FormatError{s}
	}
	id := ID{Text: s, Kind: Kind(fields[0]), Triple: ParseTriple(strings.Join(fields[1:5], "-"))}
	if len(fields) == 6 {
		id.TargetID = fields[5]
	}
	return id, nil
}

// Parse parses an entry ID like ParseLLVM, and also the forms of older
// releases, which have three triple fields: host-x86_64-unknown-linux and
// hip-amdgcn-amd-amdhsa-gfx906. Use it for IDs stored in files.
func Parse(s string) (ID, error) {
	if id, ok := parseOld(s); ok {
		return id, nil
	}
	return ParseLLVM(s)
}

// parseOld parses s if it has a triple of three fields. LLVM treats the field
// after such a triple as the environment: a processor in this field identifies
// the old form.
func parseOld(s string) (ID, bool) {
	fields := strings.SplitN(s, "-", 5)
	if len(fields) < 4 {
		return ID{}, false
	}
	id := ID{Text: s, Kind: Kind(fields[0]), Triple: ParseTriple(strings.Join(fields[1:4], "-") + "-")}
	if len(fields) == 4 {
		return id, !looksLikeProcessor(id.Triple, processorOf(fields[3])) // one field is missing
	}
	id.TargetID = fields[4]
	if t, ok := strings.CutSuffix(id.TargetID, "-"); ok && (!strings.Contains(t, ":") || strings.ContainsAny(t[len(t)-1:], "+-:")) {
		id.TargetID = t // the dash does not belong to a feature: LLVM 22 adds it after the field that it treats as the environment
	}
	return id, looksLikeProcessor(id.Triple, processorOf(id.TargetID))
}

// String returns the standard form, which LLVM writes to bundles and messages:
// the triple in normal form with four fields, the last of which is empty for
// amdhsa, and five dashes before the target ID even if that is empty.
func (id ID) String() string {
	return string(id.Kind) + "-" + id.standardTriple() + "-" + id.TargetID
}

// standardTriple returns the triple in the standard form of the ID.
func (id ID) standardTriple() string {
	if id.Triple.OS == OSAMDHSA {
		// The runtimes expect an empty environment.
		return Normalize(id.Triple.text, 3) + "-"
	}
	return id.Triple.Normalize()
}

// standard returns the ID with its triple in standard form.
func (id ID) standard() ID {
	id.Triple = ParseTriple(id.standardTriple())
	return id
}

// llvm returns the ID as LLVM 22 interprets it: without a target ID if LLVM
// does not list the processor because it is unknown (gfx940), an alias (fiji)
// or misspelt.
func (id ID) llvm() ID {
	if !isOffloadArch(processorOf(id.TargetID)) {
		id.TargetID = ""
	}
	return id
}

// Canonical returns the ID in standard form with its target ID in canonical
// form. A malformed target ID is not changed.
func (id ID) Canonical() ID {
	if t, err := ParseTargetID(id.TargetID); err == nil {
		id.TargetID = t.Canonical(id.Triple).String()
	}
	id = id.standard().standard() // twice, because amdhsa may have been in the wrong field
	id.Text = id.String()
	return id
}

// validate returns an *InvalidError for an unknown kind or triple.
func (id ID) validate() error {
	badTriple := id.Triple.Arch == ArchUnknown
	if id.Kind.Valid() && !badTriple {
		return nil
	}
	e := &InvalidError{Target: id.Text}
	if !id.Kind.Valid() {
		e.UnknownKind, e.Kind = true, id.Kind
	}
	if badTriple {
		e.UnknownTriple, e.Triple = true, id.Triple.String()
	}
	return e
}

// FormatError reports an entry ID with too few fields.
type FormatError struct {
	Target string // the ID as given
}

// Error returns the ID and the format.
func (e *FormatError) Error() string {
	return fmt.Sprintf("target %q: expected KIND-ARCH-VENDOR-OS-ENV, with -TARGETID for a processor", e.Target)
}

// InvalidError reports an entry ID with an unknown kind or triple.
type InvalidError struct {
	Target        string // the ID as given
	UnknownKind   bool
	Kind          Kind // if it is unknown
	UnknownTriple bool
	Triple        string // if it is unknown
}

// Error returns the ID and what is unknown.
func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "invalid target %q", e.Target)
	if e.UnknownKind {
		fmt.Fprintf(&b, ", unknown offloading kind %q", e.Kind)
	}
	if e.UnknownTriple {
		fmt.Fprintf(&b, ", unknown target triple %q", e.Triple)
	}
	return b.String()
}
