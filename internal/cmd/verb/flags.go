package verb

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/sizes"
)

// flagSet contains the flags of one call, and the properties of their values.
type flagSet struct {
	flag.FlagSet
	choices     []choice          // flags with a fixed set of values
	directories []string          // flags whose value is a directory
	repeatable  []string          // flags that may be given several times
	given       map[string]string // the flags of the call, with the last value of each
	memory      int64             // --max-memory in bytes, 0 for the default
	command     bool              // whether flags end at the first operand
	checks      []func(operands []string) error
	stderr      io.Writer // for warnings of a running verb
}

// choice is a flag with a fixed set of values.
type choice struct {
	flag   string
	values []string
}

// check adds a check of the values of flags and of the operands. Checks run before the verb, in the
// order in which they were added.
func (f *flagSet) check(check func(operands []string) error) { f.checks = append(f.checks, check) }

// required defines a flag with a string that must be given.
func (f *flagSet) required(to *string, name, usage string) {
	f.StringVar(to, name, "", usage)
	f.check(func([]string) error { return required(name, *to) })
}

// repeated defines a flag that may be repeated: add receives each value.
func (f *flagSet) repeated(name, usage string, add func(string) error) {
	f.Func(name, usage, add)
	f.repeatable = append(f.repeatable, name)
}

// list defines a flag that may be repeated: each value is added to a list.
func (f *flagSet) list(to *[]string, name, usage string) {
	f.repeated(name, usage, func(s string) error {
		*to = append(*to, s)
		return nil
	})
}

// targets defines a flag that may be repeated: each value is a list of targets.
func (f *flagSet) targets(to *[]string, name, usage string) {
	f.repeated(name, usage, func(s string) (err error) {
		*to, err = addTargets(*to, s)
		return err
	})
}

// choice defines a flag with a fixed set of values: set receives the value.
func (f *flagSet) choice(name, usage string, values []string, set func(string)) {
	f.Func(name, usage, func(s string) error {
		if err := oneOf(s, values); err != nil {
			return err
		}
		set(s)
		return nil
	})
	f.complete(name, values...)
}

// oneOf returns an error if a value is not in a list.
func oneOf(s string, values []string) error {
	switch near := nearest.Name(s, values); {
	case slices.Contains(values, s):
		return nil
	case near != "" && 3*nearest.Distance(s, near) <= len(s):
		return fmt.Errorf("found %q, did you mean %s?", s, near)
	}
	return fmt.Errorf("found %q, expected %s", s, alternatives(values))
}

// alternatives returns names as a list with "or": a, b or c.
func alternatives(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// number defines a flag with a whole number in a range.
func (f *flagSet) number(to *int, name, usage string, least, most int) {
	f.Func(name, usage, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("found %q, expected a number from %d to %d", s, least, most)
		}
		*to = n
		return nil
	})
}

// size defines a flag with a size in bytes.
func (f *flagSet) size(to *int64, name, usage string) {
	f.Func(name, usage, func(s string) (err error) {
		*to, err = sizes.Parse(s)
		return err
	})
}

// mostAlign is the largest alignment of entries, in bytes. A larger one only adds a hole to the
// file.
const mostAlign = 1 << 30

// align defines --align, the alignment of entries.
func (f *flagSet) align(to *uint64) {
	*to = 1
	f.Func("align", "alignment of entries, a `size` such as 4096 or 4KiB (default 1)", func(s string) error {
		n, err := sizes.Parse(s)
		if err == nil && (n < 1 || n > mostAlign) {
			err = fmt.Errorf("found %q, expected 1 to 1GiB", s)
		}
		*to = uint64(n)
		return err
	})
}

// input defines --input, the file that a verb reads. It can be an operand instead.
func (f *flagSet) input(to *string, usage string) {
	f.inputFlag(to, usage)
	f.check(func(operands []string) error { return oneInput(to, operands) })
}

// inputFlag defines --input for verbs that call oneInput in some modes only.
func (f *flagSet) inputFlag(to *string, usage string) {
	f.StringVar(to, "input", "", usage+"; the same as FILE")
}

// inputs defines --input for verbs that read several files. They precede those of operands. what
// describes them.
func (f *flagSet) inputs(to *[]string, what string) {
	f.inputsFlag(to)
	f.check(func(operands []string) error { return someInputs(to, operands, what) })
}

// inputsFlag defines --input for verbs that call someInputs in some modes only.
func (f *flagSet) inputsFlag(to *[]string) {
	f.list(to, "input", "a `file`; the same as a FILE. May be repeated.")
}

// operands sets to to the operands. Without any, message is the error.
func (f *flagSet) operands(to *[]string, message string) {
	f.check(func(operands []string) error {
		if *to = operands; len(operands) == 0 {
			return usageError(message)
		}
		return nil
	})
}

// oneInput completes the input of a verb from its operands.
func oneInput(input *string, operands []string) error {
	all := operands
	if *input != "" {
		all = append([]string{*input}, operands...)
	}
	switch len(all) {
	case 0:
		return usageError("the input is missing: expected FILE or --input FILE")
	case 1:
		*input = all[0]
		return nil
	}
	return usageError(fmt.Sprintf("expected one input, found %d: %s", len(all), strings.Join(all, ", ")))
}

// someInputs adds the operands to the inputs of a verb that reads several files. what describes them.
func someInputs(inputs *[]string, operands []string, what string) error {
	if *inputs = append(*inputs, operands...); len(*inputs) == 0 {
		return usageError("the input is missing: expected " + what)
	}
	return nil
}

// complete makes completion offer these values for a flag.
func (f *flagSet) complete(name string, values ...string) {
	f.choices = append(f.choices, choice{name, values})
}

// directory defines a flag with a directory.
func (f *flagSet) directory(to *string, name, value, usage string) {
	f.StringVar(to, name, value, usage)
	f.directories = append(f.directories, name)
}

// with sets m[key], in a new map if m is nil.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

// entryFlag is one --entry TARGET=FILE.
type entryFlag struct {
	target, file string
}

// entries are the values of --entry.
type entries struct {
	list []entryFlag
	kind string // of targets without one
}

// define defines --entry, which may be repeated, and --kind.
func (e *entries) define(flags *flagSet, usage string) {
	e.kind = string(target.HIPv4)
	flags.choice("kind", "offload `kind` of targets given without one: hip, hipv4 or openmp (default hipv4)", []string{"hip", "hipv4", "openmp"}, func(s string) { e.kind = s })
	flags.repeated("entry", "`TARGET=FILE`: "+usage+" A target is a target ID (gfx942, gfx90a:xnack+) or a whole entry ID. May be repeated.", func(s string) error {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("found %q, expected TARGET=FILE, such as gfx942=kernels.co", s)
		}
		if err := checkProcessor(name); err != nil {
			if processor, _, _ := strings.Cut(file, ":"); target.KnownProcessor(processor) {
				err = fmt.Errorf("%s: the target precedes the file: write --entry %s=%s", s, file, name)
			}
			return err
		}
		e.list = append(e.list, entryFlag{name, file})
		return nil
	})
}

// readFlags defines the flags of verbs that read bundles. The verbs print warnings.
func readFlags(flags *flagSet, opt *engine.ReadOptions) {
	flags.BoolVar(&opt.Lenient, "lenient", false, "accept compressed bundles whose hash or sizes are wrong, as LLVM does")
	flags.BoolVar(&opt.Verify, "verify", false, "check the hash of compressed bundles from other tools even if they are large")
	flags.size(&opt.MaxSize, "max-size", "the largest uncompressed `size` of a compressed bundle, such as 1GiB (default: no limit)")
	opt.Warn = func(err error) {
		fmt.Fprintf(flags.stderr, "offload %s: warning: %s\n", flags.Name(), printable.Error(err))
	}
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
	versionFlag(flags, &c.opt.Version, "compressed bundles")
	framesFlag(flags, &c.opt.Frames)
}

// versionFlag defines --format-version. what describes what has that version.
func versionFlag(flags *flagSet, version *int, what string) {
	*version = 3
	flags.choice("format-version", "`version` of "+what+", 2 or 3 (default 3)", []string{"2", "3"}, func(s string) {
		*version = int(s[0] - '0')
	})
}

// options returns nil without compression. It rejects flags that have no effect without it.
func (c *compression) options(flags *flagSet) (*engine.Compression, error) {
	if c.on {
		return &c.opt, nil
	}
	return nil, flags.requires("compress", "level", "format-version", "frames")
}

// requires returns an error if one of several flags is given without a flag that they require.
func (f *flagSet) requires(flag string, names ...string) error {
	if _, ok := f.given[flag]; ok {
		return nil
	}
	for _, name := range names {
		if _, ok := f.given[name]; ok {
			return usageError("--" + name + " requires --" + flag)
		}
	}
	return nil
}

// The levels of compression, as numbers of LLVM's tools.
const (
	fastLevel  = 3 // the default
	smallLevel = 9
	mostLevel  = 22 // of LLVM's tools
)

// levelFlag defines --level.
func levelFlag(flags *flagSet, level *int) {
	*level = fastLevel
	flags.Func("level", "compression `level`: fast (the default) has the size of LLVM's level 3; small takes about twice the time and has the size of LLVM's level 9. LLVM's numbers are accepted: 1 to 6 mean fast, 7 to 22 mean small.", func(s string) error {
		switch n, err := strconv.Atoi(s); {
		case s == "fast":
			*level = fastLevel
		case s == "small":
			*level = smallLevel
		case err == nil && 1 <= n && n <= mostLevel:
			*level = n
		default:
			return fmt.Errorf("found %q, expected fast, small, or a level of LLVM from 1 to %d", s, mostLevel)
		}
		return nil
	})
	flags.complete("level", "fast", "small")
}

// framesFlag defines --frames.
func framesFlag(flags *flagSet, frames *ccob.Frames) {
	flags.choice("frames", "`how` to divide a compressed bundle into frames: auto, entry or one (default auto)", []string{"auto", "entry", "one"}, func(s string) {
		*frames = map[string]ccob.Frames{"auto": ccob.FramesAuto, "entry": ccob.FramesEntry, "one": ccob.FramesOne}[s]
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
func (m *matching) trace(call *invocation) func(target.Match) {
	if !m.explain {
		return nil
	}
	return func(match target.Match) { fmt.Fprintln(call.Stderr, printable.Text(match.String())) }
}

// fileTypes are the values of --type.
var fileTypes = []string{"i", "ii", "cui", "hipi", "d", "ll", "bc", "s", "o", "a", "gch", "ast"}

// typeFlag defines --type. usage describes the default.
func typeFlag(flags *flagSet, fileType *bundle.FileType, usage string) {
	flags.choice("type", "file `type`, with the names of clang-offload-bundler -type (default "+usage+")", fileTypes, func(s string) {
		*fileType = bundle.FileType(s)
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
func (e *entries) targets(op target.Operation) ([]target.ID, error) {
	if len(e.list) == 0 {
		return nil, usageError("no --entry: name at least one target, e.g. --entry gfx942=kernels.co")
	}
	names := make([]string, len(e.list))
	for i, entry := range e.list {
		names[i] = entry.target
	}
	ids, err := target.CheckTargets(names, e.complete, op)
	switch {
	case errors.As(err, new(*target.DuplicateError)):
		return nil, e.twice()
	case err != nil:
		return nil, usageError("--entry: " + err.Error())
	}
	return ids, nil
}

// complete returns the target that a name means.
func (e *entries) complete(name string) (target.ID, error) {
	return target.Complete(name, target.Kind(e.kind))
}

// twice reports the first two entries for one target, in any spelling.
func (e *entries) twice() error {
	first := map[string]entryFlag{}
	for _, entry := range e.list {
		id, err := e.complete(entry.target)
		if err != nil {
			return usageError("--entry: " + err.Error())
		}
		other, twice := first[id.String()]
		if !twice {
			first[id.String()] = entry
			continue
		}
		name := entry.target
		if other.target != name {
			name = other.target + " and " + name + ", which are the same target"
		}
		return usageError(fmt.Sprintf("two --entry for %s: %s, %s; remove one", name, cmp.Or(other.file, "no file"), cmp.Or(entry.file, "no file")))
	}
	return usageError("--entry: two for the same target; remove one")
}

// bundle returns the entries of a bundle with their completed targets.
func (e *entries) bundle() ([]engine.BundleEntry, error) {
	ids, err := e.targets(target.Bundling)
	all := make([]engine.BundleEntry, len(ids))
	for i, id := range ids {
		all[i] = engine.BundleEntry{Target: id, Input: e.list[i].file}
	}
	return all, err
}

// requests returns the requests for entries.
func (e *entries) requests() ([]engine.UnbundleRequest, error) {
	ids, err := e.targets(target.Unbundling)
	all := make([]engine.UnbundleRequest, len(ids))
	for i, id := range ids {
		entry := e.list[i]
		if entry.file == "" {
			return nil, usageError("--entry " + entry.target + "=: the output is missing, expected " + entry.target + "=FILE")
		}
		all[i] = engine.UnbundleRequest{Target: id, Output: entry.file}
	}
	return all, err
}

// required returns a usage error for the first flag whose string is empty. flags are names, each
// followed by its string.
func required(flags ...string) error {
	for i := 0; i < len(flags); i += 2 {
		if flags[i+1] != "" {
			continue
		}
		flag, value := flags[i], "FILE"
		switch flag {
		case "triple":
			value = "TRIPLE, such as x86_64-unknown-linux-gnu"
		case "output-dir", "kpack-dir":
			value = "DIRECTORY"
		case "symbol", "group":
			value = "NAME"
		}
		return usageError("--" + flag + " is missing: add --" + flag + " " + value)
	}
	return nil
}

// memoryFlag defines --max-memory, a flag of all verbs.
func memoryFlag(flags *flagSet) {
	flags.Func(maxMemory, "the `size` of memory for decompressed code and lists, such as 512MiB or 2GiB (default: half of the memory of the machine or container, at most 4 GiB)", func(s string) (err error) {
		flags.memory, err = ParseMemory(s)
		return err
	})
}

// leastMemory is the smallest limit of memory, in bytes.
const leastMemory = 16 << 20

// ParseMemory reads a size of memory, see package sizes. It returns bytes.
func ParseMemory(s string) (int64, error) {
	n, err := sizes.Parse(s)
	if err == nil && n < leastMemory {
		err = fmt.Errorf("found %q, expected at least 16MiB", s)
	}
	return n, err
}
