package verb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/prune"
)

var pruneVerb = verb{
	name:    "prune",
	operand: " FILE, or --tree IN OUT",
	summary: "Removes, replaces, compresses or decompresses the device code in a library, program, object, archive, bundle or fatbinary.",
	details: "Addresses, symbols and the build ID of the file do not change, and it can be stripped afterwards.",
	examples: []example{
		{"Keep the code of one GPU in a library", "offload prune --input librccl.so.1 --output small/librccl.so.1 --keep gfx90a"},
		{"Keep the code for one NVIDIA GPU, and PTX", "offload prune --input libmath.so --output small/libmath.so --keep sm_90,compute_90"},
		{"Show what that would save", "offload prune --input librccl.so.1 --output small/librccl.so.1 --keep gfx90a --dry-run"},
		{"Prune an installation", "offload prune --keep gfx90a --ignore-missing --tree /opt/rocm rocm-gfx90a"},
		{"Compress what a build left uncompressed", "offload prune --input librccl.so.1 --output small/librccl.so.1 --compress"},
	},
	flags: func(flags *flagSet) runner { return new(pruneFlags).define(flags) },
}

// pruneFlags are the flags of offload prune.
type pruneFlags struct {
	opt    engine.PruneOptions
	strict func(byDefault bool) bool // of --keep-empty
	json   bool
	tree   bool
}

// define defines the flags and returns what runs the verb.
func (f *pruneFlags) define(flags *flagSet) runner {
	opt := &f.opt
	flags.inputFlag(&opt.Input, "the `file` to read")
	flags.StringVar(&opt.Output, "output", "", "the `file` to write, which must not be the input")
	flags.targets(&opt.Keep, "keep", "`A,...`: keep the device code of these targets only. A target is a processor, which includes its variants (gfx90a), a target ID (gfx90a:xnack+) or a whole entry ID. In CUDA fatbinaries, sm_90 is machine code and compute_90 is PTX.")
	flags.targets(&opt.Drop, "drop", "`A,...`: remove the device code of these targets")
	flags.repeated("replace", "`A=FILE`: replace the contents of every entry of this target by FILE. May be repeated.", func(s string) error {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("found %q, expected A=FILE", s)
		}
		if err := checkProcessor(name); err != nil {
			return err
		}
		opt.Replace = append(opt.Replace, engine.PruneReplacement{Name: name, File: file})
		return nil
	})
	flags.BoolVar(&opt.Compress, "compress", false, "compress bundles that are not compressed")
	flags.BoolVar(&opt.Decompress, "decompress", false, "decompress compressed bundles")
	levelFlag(flags, &opt.Level)
	flags.BoolVar(&opt.IgnoreMissing, "ignore-missing", false, "warn about missing targets of --keep instead of failing, and copy files without device code")
	f.strict = keepEmptyFlag(flags, "with --tree yes, else error")
	flags.BoolVar(&opt.DryRun, "dry-run", false, "write nothing, and report sizes; those of compressed code are upper bounds")
	flags.BoolVar(&opt.Verify, "verify", false, "check the structure of the output")
	flags.BoolVar(&f.tree, "tree", false, "prune the files in directory IN into a new directory OUT, instead of --input and --output; files without device code are copied, links are kept, and files that are for other GPUs only are removed")
	flags.BoolVar(&f.json, "json", false, "print a JSON object with the changes to each bundle; sizes in bytes")
	return f.run
}

// keepEmptyFlag defines --keep-empty, whose default is described, and returns whether it is error, after the
// flags were parsed.
func keepEmptyFlag(flags *flagSet, byDefault string) func(strict bool) bool {
	given := ""
	flags.choice("keep-empty", "what to do if no device code of a file would remain: `yes` keeps libraries with empty bundles, and in directories and wheels removes files of device code; error fails, also for files that cannot be read (default: "+byDefault+")", []string{"yes", "error"}, func(s string) { given = s })
	return func(strict bool) bool {
		if given == "" {
			return strict
		}
		return given == "error"
	}
}

func (f *pruneFlags) run(call *invocation) error {
	opt := &f.opt
	if f.tree {
		return f.runTree(call)
	}
	if err := oneInput(&opt.Input, call.operands); err != nil {
		return err
	}
	if opt.Output == "" {
		return usageError("--output is missing: add --output NEW; " + opt.Input + " does not change")
	}
	if err := f.what(); err != nil {
		return err
	}
	for _, r := range opt.Replace {
		warnOfCode(call, "replace", r.Name, r.File)
	}
	opt.KeepEmpty = !f.strict(true)
	report, err := call.Session.Prune(call.ctx, *opt)
	if errors.Is(err, engine.ErrNoDeviceCode) {
		err = fmt.Errorf("%w%s", err, found(call, opt.Input))
	}
	if err != nil {
		return pruneAdvice(err)
	}
	if f.json {
		return listing.JSON(call.Stdout, report)
	}
	for _, warning := range report.Warnings {
		call.warn("%s: %s", printable.Name(opt.Input), printable.Text(warning))
	}
	call.print("%s", pruneLine(&report))
	return nil
}

// runTree prunes a directory.
func (f *pruneFlags) runTree(call *invocation) error {
	opt := &f.opt
	if err := treeOperands(call.operands, &opt.Input, &opt.Output); err != nil {
		return err
	}
	if err := f.what(); err != nil {
		return err
	}
	report, err := installation.PruneTree(call.ctx, call.Session, installation.PruneOptions{PruneOptions: *opt, Strict: f.strict(false)})
	if err != nil {
		return pruneAdvice(err)
	}
	if f.json {
		return listing.JSON(call.Stdout, report)
	}
	for _, file := range report.Files {
		for _, warning := range file.Warnings {
			call.warn("%s: %s", printable.Name(file.Input), printable.Text(warning))
		}
		call.print("%s", pruneLine(&file))
	}
	for _, warning := range report.Warnings {
		call.warn("%s", printable.Text(warning))
	}
	for _, line := range removedLines(&report) {
		call.print("%s", line)
	}
	call.print("%s", treeLine(&report))
	return nil
}

// removedLines returns a line for each directory of removed files.
func removedLines(r *installation.PruneTreeReport) (lines []string) {
	type removed struct {
		count int
		size  int64
		gpus  []string
	}
	dirs := make(map[string]*removed)
	for _, f := range r.Removed {
		dir := path.Dir(f.File)
		d := dirs[dir]
		if d == nil {
			d = &removed{}
			dirs[dir] = d
		}
		d.count++
		d.size += f.Size
		for _, gpu := range f.GPUs {
			if !slices.Contains(d.gpus, gpu) {
				d.gpus = append(d.gpus, gpu)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		d := dirs[dir]
		slices.Sort(d.gpus)
		lines = append(lines, fmt.Sprintf("%s: removed %d %s for %s, %d bytes", dir, d.count, printable.Noun(d.count, "file"), strings.Join(d.gpus, ", "), d.size))
	}
	return lines
}

// treeLine returns the summary of a pruned directory: what was removed, kept, and not understood.
func treeLine(r *installation.PruneTreeReport) string {
	line := fmt.Sprintf("%s: %d -> %d bytes in %d %s, %d with device code", r.Output, r.SizeBefore, r.SizeAfter, r.Count, printable.Noun(r.Count, "file"), len(r.Files))
	for _, part := range []struct {
		count int
		text  string
	}{{len(r.Removed), "removed"}, {len(r.Empty), "without code now"}, {r.Unread, "not understood"}} {
		if part.count > 0 {
			line += fmt.Sprintf(", %d %s", part.count, part.text)
		}
	}
	return line
}

// pruneAdvice adds advice to the error for a file without the requested code.
func pruneAdvice(err error) error {
	switch {
	case errors.Is(err, engine.ErrNoDeviceCode):
		return fmt.Errorf("%w; to copy it, add --ignore-missing", err)
	case errors.As(err, new(*prune.MissingError)), errors.As(err, new(*installation.MissingError)):
		return fmt.Errorf("%w; name one of them, or add --ignore-missing", err)
	}
	return err
}

// treeOperands returns the directories of --tree, which replace --input and --output.
func treeOperands(operands []string, input, output *string) error {
	switch {
	case *input != "" || *output != "":
		return usageError("--tree takes two directories instead of --input and --output")
	case len(operands) != 2:
		return usageError(fmt.Sprintf("--tree: expected two directories, IN and OUT, found %d", len(operands)))
	}
	*input, *output = operands[0], operands[1]
	return nil
}

// what checks that the flags request a change and do not conflict.
func (f *pruneFlags) what() error {
	switch opt := &f.opt; {
	case len(opt.Keep) > 0 && len(opt.Drop) > 0:
		return usageError("--keep cannot be combined with --drop")
	case opt.Compress && opt.Decompress:
		return usageError("--compress cannot be combined with --decompress")
	case len(opt.Keep) == 0 && len(opt.Drop) == 0 && len(opt.Replace) == 0 && !opt.Compress && !opt.Decompress:
		return usageError("nothing to do: expected --keep, --drop, --replace, --compress or --decompress")
	}
	return nil
}

// addTargets adds the targets of a list with commas.
func addTargets(names []string, list string) ([]string, error) {
	for name := range strings.SplitSeq(list, ",") {
		switch {
		case name == "":
			return nil, fmt.Errorf("found %q, expected targets separated by commas", list)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("%s is named twice", name)
		}
		if err := checkImage(name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// pruneLine returns a one-line summary.
func pruneLine(r *engine.PruneReport) string {
	kept, all := r.Architectures()
	bundles := "1 bundle"
	if len(r.Bundles) != 1 {
		bundles = fmt.Sprintf("%d bundles", len(r.Bundles))
	}
	names := cmp.Or(strings.Join(kept, ", "), "none")
	if slices.Equal(kept, all) && len(kept) > 1 {
		names = "all"
	}
	return fmt.Sprintf("%s: %d -> %d bytes, kept %s of %d architectures in %s", r.Output, r.SizeBefore, r.SizeAfter, names, len(all), bundles)
}
