package verb

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/ccob"
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

// readFlags defines the flags of verbs that read bundles.
func readFlags(flags *flag.FlagSet) *engine.ReadOptions {
	var opt engine.ReadOptions
	flags.BoolVar(&opt.Lenient, "lenient", false, "take compressed bundles whose hash or sizes are wrong, as LLVM does")
	flags.BoolVar(&opt.Verify, "verify", false, "check the hash of compressed bundles that others made even if they are large")
	flags.Int64Var(&opt.MaxSize, "max-size", 0, "the `bytes` that a compressed bundle may have uncompressed; 0 for any number")
	return &opt
}

// compressFlags defines the flags of compression. What it returns gives nil if a
// bundle is not to be compressed.
func compressFlags(flags *flag.FlagSet) func() *engine.Compression {
	compress := flags.Bool("compress", false, "compress the bundle with zstd")
	var opt engine.Compression
	flags.IntVar(&opt.Level, "level", 3, "compression `level`, as clang-offload-bundler counts them")
	flags.Func("format-version", "`version` of compressed bundles, 2 or 3 (default 3)", func(s string) error {
		if s != "2" && s != "3" {
			return errors.New("want 2 or 3")
		}
		opt.Version = int(s[0] - '0')
		return nil
	})
	framesFlag(flags, &opt.Frames)
	return func() *engine.Compression {
		if !*compress {
			return nil
		}
		return &opt
	}
}

// framesFlag defines --frames.
func framesFlag(flags *flag.FlagSet, frames *ccob.Frames) {
	flags.Func("frames", "`how` a compressed bundle is cut into frames: auto, entry or one (default auto)", func(s string) error {
		how, ok := map[string]ccob.Frames{"auto": ccob.FramesAuto, "entry": ccob.FramesEntry, "one": ccob.FramesOne}[s]
		if !ok {
			return errors.New("want auto, entry or one")
		}
		*frames = how
		return nil
	})
}

// matchFlags defines the flags of what serves what. The function it returns gives
// the rules, and what explains them if that is wanted.
func matchFlags(flags *flag.FlagSet) func(call *command.Call) (target.Rules, func(target.Match)) {
	var rules target.Rules
	flags.BoolVar(&rules.HIPOpenMP, "hip-openmp-compatible", false, "the kinds hip and hipv4 serve openmp, and the other way round")
	explain := flags.Bool("explain", false, "tell on standard error why entries serve the targets or not")
	return func(call *command.Call) (target.Rules, func(target.Match)) {
		if !*explain {
			return rules, nil
		}
		return rules, func(m target.Match) { fmt.Fprintln(call.Stderr, m) }
	}
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

// entriesType refuses archives, which have verbs of their own.
func entriesType(t engine.FileType, verb string) error {
	if t == engine.ArchiveType {
		return usageError("--type a: archives are for offload " + verb)
	}
	return nil
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
