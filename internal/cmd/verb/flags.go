package verb

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// flagSet contains the flags of one call, and the properties of their values for completion.
type flagSet struct {
	flag.FlagSet
	values      map[string][]string // by flag: all possible values
	directories map[string]bool     // flags whose value is a directory
	repeatable  map[string]bool     // flags that may be given several times
	memory      int64               // --max-memory in bytes, 0 for the default
}

// repeated defines a flag that may be repeated: add receives each value.
func (f *flagSet) repeated(name, usage string, add func(string) error) {
	f.Func(name, usage, add)
	f.repeatable = with(f.repeatable, name, true)
}

// choice defines a flag with a fixed set of values: set receives the value.
func (f *flagSet) choice(name, usage string, values []string, set func(string) error) {
	f.Func(name, usage, set)
	f.complete(name, values...)
}

// complete makes completion offer these values for a flag.
func (f *flagSet) complete(name string, values ...string) { f.values = with(f.values, name, values) }

// completeDirectories makes completion offer directories for a flag.
func (f *flagSet) completeDirectories(name string) { f.directories = with(f.directories, name, true) }

// with sets m[key], in a new map if m is nil.
func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// entryFlag is one --entry TARGET=FILE.
type entryFlag struct {
	target, file string
}

// entriesFlag defines --entry, which may be repeated.
func entriesFlag(flags *flagSet, entries *[]entryFlag, usage string) {
	flags.repeated("entry", "`TARGET=FILE`: "+usage+" A target is a target ID (gfx942, gfx90a:xnack+) or a whole entry ID. May be repeated.", func(s string) error {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("expected TARGET=FILE")
		}
		*entries = append(*entries, entryFlag{name, file})
		return nil
	})
}

// kindFlag defines --kind.
func kindFlag(flags *flagSet, kind *string) {
	flags.StringVar(kind, "kind", string(target.HIPv4), "offload `kind` of targets given without one: hip, hipv4 or openmp")
	flags.complete("kind", "hip", "hipv4", "openmp")
}

// readFlags defines the flags of verbs that read bundles.
func readFlags(flags *flagSet, opt *engine.ReadOptions) {
	flags.BoolVar(&opt.Lenient, "lenient", false, "accept compressed bundles whose hash or sizes are wrong, as LLVM does")
	flags.BoolVar(&opt.Verify, "verify", false, "check the hash of compressed bundles from other tools even if they are large")
	flags.Int64Var(&opt.MaxSize, "max-size", 0, "the largest uncompressed size of a compressed bundle in `bytes`; 0 for no limit")
}

// warned returns read options that print warnings.
func warned(call *command.Call, verb string, opt engine.ReadOptions) engine.ReadOptions {
	opt.Warn = func(err error) {
		fmt.Fprintf(call.Stderr, "offload %s: warning: %s\n", verb, printable.Error(err))
	}
	return opt
}

// compression are the flags of compression.
type compression struct {
	on  bool
	opt engine.Compression
}

// define defines the flags.
func (c *compression) define(flags *flagSet) {
	flags.BoolVar(&c.on, "compress", false, "compress the bundle with zstd")
	levelFlag(flags, &c.opt.Level)
	flags.choice("format-version", "`version` of compressed bundles, 2 or 3 (default 3)", []string{"2", "3"}, func(s string) error {
		if s != "2" && s != "3" {
			return errors.New("expected 2 or 3")
		}
		c.opt.Version = int(s[0] - '0')
		return nil
	})
	framesFlag(flags, &c.opt.Frames)
}

// options returns nil without compression.
func (c *compression) options() *engine.Compression {
	if !c.on {
		return nil
	}
	return &c.opt
}

// levelFlag defines --level.
func levelFlag(flags *flagSet, level *int) {
	flags.IntVar(level, "level", 3, "compression `level`, on the scale of clang-offload-bundler")
}

// framesFlag defines --frames.
func framesFlag(flags *flagSet, frames *ccob.Frames) {
	flags.choice("frames", "`how` to divide a compressed bundle into frames: auto, entry or one (default auto)", []string{"auto", "entry", "one"}, func(s string) error {
		how, ok := map[string]ccob.Frames{"auto": ccob.FramesAuto, "entry": ccob.FramesEntry, "one": ccob.FramesOne}[s]
		if !ok {
			return errors.New("expected auto, entry or one")
		}
		*frames = how
		return nil
	})
}

// matching contains the flags for the selection of entries.
type matching struct {
	rules   target.Rules
	explain bool
}

// define defines the flags.
func (m *matching) define(flags *flagSet) {
	flags.BoolVar(&m.rules.HIPOpenMP, "hip-openmp-compatible", false, "let entries of kinds hip and hipv4 serve openmp targets, and the other way round")
	flags.BoolVar(&m.explain, "explain", false, "print on standard error why each entry serves a target or not")
}

// trace returns the function that prints explanations, nil without --explain.
func (m *matching) trace(call *command.Call) func(target.Match) {
	if !m.explain {
		return nil
	}
	return func(match target.Match) { fmt.Fprintln(call.Stderr, printable.Text(match.String())) }
}

// fileTypes are the values of --type.
var fileTypes = []string{"i", "ii", "cui", "hipi", "d", "ll", "bc", "s", "o", "a", "gch", "ast"}

// typeFlag defines --type. usage describes the default.
func typeFlag(flags *flagSet, fileType *bundle.FileType, usage string) {
	flags.choice("type", "file `type`, with the names of clang-offload-bundler -type (default "+usage+")", fileTypes, func(s string) (err error) {
		*fileType, err = bundle.ParseFileType(s)
		return err
	})
}

// entriesType rejects archives, which have separate verbs.
func entriesType(t bundle.FileType, verb string) error {
	if t == bundle.ArchiveType {
		return usageError("--type a: for archives, run offload " + verb)
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

// bundleEntries returns the entries of a bundle with their completed targets.
func bundleEntries(entries []entryFlag, kind string) ([]engine.BundleEntry, error) {
	ids, err := targets(entries, kind, target.Bundling)
	if err != nil {
		return nil, err
	}
	all := make([]engine.BundleEntry, len(entries))
	for i, entry := range entries {
		all[i] = engine.BundleEntry{Target: ids[i], Input: entry.file}
	}
	return all, nil
}

// unbundleRequests returns the requests for entries.
func unbundleRequests(entries []entryFlag, kind string) ([]engine.UnbundleRequest, error) {
	ids, err := targets(entries, kind, target.Unbundling)
	if err != nil {
		return nil, err
	}
	all := make([]engine.UnbundleRequest, len(entries))
	for i, entry := range entries {
		all[i] = engine.UnbundleRequest{Target: ids[i], Output: entry.file}
	}
	return all, nil
}

// required returns a usage error if the string of a flag is empty.
func required(flag, value string) error {
	if value == "" {
		return usageError("--" + flag + " is missing")
	}
	return nil
}
