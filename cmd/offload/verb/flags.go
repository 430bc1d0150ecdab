package verb

import (
	"flag"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
)

// entryFlag is one --entry TARGET=FILE.
type entryFlag struct {
	target, file string
}

// entriesFlag defines --entry, which may be given several times.
func entriesFlag(flags *flag.FlagSet, usage string) *[]entryFlag {
	var entries []entryFlag
	flags.Func("entry", "`TARGET=FILE`: "+usage+" A target is a target ID (gfx942, gfx90a:xnack+) or a whole entry ID. May be repeated.", func(s string) error {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("want TARGET=FILE")
		}
		entries = append(entries, entryFlag{name, file})
		return nil
	})
	return &entries
}

// kindFlag defines --kind.
func kindFlag(flags *flag.FlagSet) *string {
	return flags.String("kind", string(target.HIPv4), "offload `kind` of targets given without one: hip, hipv4 or openmp")
}

// typeFlag defines --type.
func typeFlag(flags *flag.FlagSet) *engine.FileType {
	fileType := engine.FileType("o")
	flags.Func("type", "file `type`, as clang-offload-bundler -type names it (default o)", func(s string) (err error) {
		fileType, err = engine.ParseFileType(s)
		return err
	})
	return &fileType
}

// targets completes and checks the targets of entries.
func targets(entries []entryFlag, kind string, op target.Operation) ([]target.ID, error) {
	if len(entries) == 0 {
		return nil, usageError("no --entry: name at least one target, e.g. --entry gfx942=kernels.co")
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.target
	}
	return target.CheckTargets(names, func(s string) (target.ID, error) {
		return target.Complete(s, target.Kind(kind))
	}, op)
}

// required returns a usage error if the string of a flag is empty.
func required(flag, value string) error {
	if value == "" {
		return usageError("--" + flag + " is missing")
	}
	return nil
}
