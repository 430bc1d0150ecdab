package llvmwords

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Target returns the words of clang-offload-bundler for a fault of the targets of a bundle, "" for
// other errors. LLVM does not detect that two spellings are the same target: the words for this
// fault begin with those for equal targets.
func Target(err error) string {
	var format *target.FormatError
	var invalid *target.InvalidError
	var duplicate *target.DuplicateError
	var host *target.HostError
	var conflict *target.ConflictError
	switch {
	case errors.As(err, &format):
		return "Targets need to follow the format '<offload kind>-<target triple>', where '<target triple>' " +
			"follows the format '<kind>-<arch>-<vendor>-<os>-<env>[-<target id>[:target features]]'."
	case errors.As(err, &invalid):
		words := fmt.Sprintf("invalid target '%s'", invalid.Target)
		if invalid.UnknownKind {
			words += fmt.Sprintf(", unknown offloading kind '%s'", invalid.Kind)
		}
		if invalid.UnknownTriple {
			words += fmt.Sprintf(", unknown target triple '%s'", invalid.Triple)
		}
		return words
	case errors.As(err, &duplicate):
		const words = "Duplicate targets are not allowed"
		if duplicate.Both == "" {
			return words
		}
		return fmt.Sprintf("%s: '%s' and '%s' are both '%s'", words, duplicate.First, duplicate.Second, duplicate.Both)
	case errors.As(err, &host):
		return fmt.Sprintf("expecting exactly one host target but got %d", host.Count)
	case errors.As(err, &conflict):
		return fmt.Sprintf("Cannot bundle inputs with conflicting targets: '%s' and '%s'", conflict.First, conflict.Second)
	}
	return ""
}
