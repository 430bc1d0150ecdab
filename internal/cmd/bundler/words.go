package bundler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmwords"
)

// words returns an error in LLVM's words if LLVM has a message for it.
func (r *run) words(err error) string {
	var missing *engine.MissingError
	var fileType *bundle.FileTypeError
	var compressed *ccob.Error
	var tooLarge *ccob.LimitError
	var archive *ar.FormatError
	var conflict *engine.MemberConflictError
	switch {
	case errors.As(err, &missing) && missing.Archive != "":
		return fmt.Sprintf("no compatible code object found for the target '%s' in heterogeneous archive library: %s", missing.Targets[0], missing.Archive)
	case errors.As(err, &missing):
		return cannotFind(missing)
	case errors.As(err, &fileType):
		return fmt.Sprintf("'%s': invalid file type specified", string(fileType.Type))
	case errors.As(err, &conflict):
		return fmt.Sprintf("conflicting TargetIDs [%s, %s] found in %s of %s", conflict.First, conflict.Second, conflict.Member, conflict.Archive)
	case errors.Is(err, engine.ErrEntryID) && r.fileType.Value == "a":
		return "Invalid bundle id read from code object"
	case errors.Is(err, engine.ErrEntryID):
		return "invalid bundle id read from the bundle"
	case errors.As(err, &compressed) && llvmwords.Compressed(compressed) != "" && r.fileType.Value == "a":
		return "Failed to decompress code object: " + r.small(llvmwords.Compressed(compressed))
	case errors.As(err, &compressed) && llvmwords.Compressed(compressed) != "":
		return "Failed to decompress input: " + r.small(llvmwords.Compressed(compressed))
	case errors.As(err, &tooLarge) && tooLarge.Compressed:
		return "Total file size exceeds version 2 limit"
	case errors.As(err, &tooLarge):
		return "Uncompressed size exceeds version 2 limit"
	case errors.As(err, &archive):
		return llvmwords.Archive(archive)
	}
	return cmp.Or(llvmwords.Target(err), err.Error())
}

// malformed returns the message for a target with a malformed target ID, in quotes like LLVM's.
func malformed(name string, e *target.TargetIDError) error {
	reason := e.Reason
	switch e.Fault {
	case target.NoProcessor:
		reason = "there is no processor before the first ':'"
	case target.NoSetting:
		reason = fmt.Sprintf("'%s' does not end in '+' or '-'", e.Feature)
	case target.RepeatedFeature:
		reason = fmt.Sprintf("'%s' occurs twice", e.Feature)
	}
	return mistake(fmt.Sprintf("invalid target '%s': target ID '%s': %s", name, e.TargetID, reason))
}

// small converts words of LLVM 22 to those of the release that is followed.
func (r *run) small(words string) string {
	if r.release.SmallWords {
		return strings.ToLower(words[:1]) + words[1:]
	}
	return words
}

// cannotFind lists the targets that no entry serves.
func cannotFind(e *engine.MissingError) string {
	var names []string
	for _, id := range e.Targets {
		names = append(names, id.String())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	last := len(names) - 1
	list := names[last]
	switch {
	case last == 1:
		list = names[0] + " and " + list
	case last > 1:
		list = strings.Join(names[:last], ", ") + ", and " + list
	}
	return "Can't find bundles for " + list
}
