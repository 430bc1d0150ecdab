package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/listing"
	"github.com/rules-offload/rules_offload/cmd/offload/printable"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/coverage"
)

var checkVerb = verb{
	name:    "check",
	operand: " [FILE|DIR...]",
	summary: "Reads a bundle back and reports what is wrong with it, or reports whether GPUs find code in files.",
	details: "\nWith --covers, the operands are any files with device code, and directories: libraries, unpacked wheels, folders of Tensile. Each GPU must find code in each file that has device code, by the rules of the HIP runtime.",
	examples: []example{
		{"Check a bundle for damage, and against a size budget", "offload check --max-size 100000000 --input kernels.hipfb"},
		{"Check that it has these images and no others", "offload check --input kernels.hipfb --entry host-x86_64-unknown-linux-gnu= --entry gfx942=gfx942.co"},
		{"Check that GPUs find code in all libraries of a tree", "offload check --covers=gfx942,gfx90a:xnack+ /opt/rocm/lib"},
	},
	flags: func() action { return new(checkFlags) },
}

// checkFlags are the flags of offload check.
type checkFlags struct {
	entries []entryFlag
	kind    string
	opt     engine.CheckOptions
	covers  []coverage.GPU
	json    bool
}

func (f *checkFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "an entry that the bundle must have, with the image that it was made of; without FILE it is empty. If any is given, the bundle must have these and no others.")
	kindFlag(flags, &f.kind)
	flags.StringVar(&f.opt.Input, "input", "", "the bundle, a `file`")
	flags.StringVar(&f.opt.Report, "output", "", "write the list of entries, or with --covers the verdicts, in JSON, to a `file` if all is well")
	flags.Int64Var(&f.opt.MaxSize, "max-size", 0, "the `bytes` that the bundle may have; 0 for any number")
	flags.BoolVar(&f.opt.DeviceCode, "device-code", false, "the images of AMD GPUs must be whole device code: AMDGPU ELF files, LLVM bitcode or SPIR-V")
	flags.repeated("covers", "`GPUs`, with commas between them, that must find code in the files: gfx942, gfx90a:xnack+. A feature that is left open stands for both of its states.", f.addGPUs)
	flags.BoolVar(&f.json, "json", false, "with --covers, print a JSON object with the verdict for each file, GPU and mode")
	flags.BoolVar(&f.opt.Linked, "linked", false, "the bundle becomes part of a program, which reaches 2 GiB")
}

// addGPUs adds the GPUs of a list to those of --covers.
func (f *checkFlags) addGPUs(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		gpu, err := coverage.ParseGPU(name)
		if err != nil {
			return err
		}
		f.covers = append(f.covers, gpu)
	}
	return nil
}

func (f *checkFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(f.covers) > 0 {
		return f.runCovers(ctx, call, operands)
	}
	if f.json {
		return usageError("--json is for --covers")
	}
	if err := noOperands(operands); err != nil {
		return err
	}
	if err := required("input", f.opt.Input); err != nil {
		return err
	}
	if len(f.entries) > 0 {
		entries, err := bundleEntries(f.entries, f.kind)
		if err != nil {
			return err
		}
		f.opt.Entries = entries
	}
	warnings, err := call.Session.Check(ctx, f.opt)
	for _, warning := range warnings {
		fmt.Fprintf(call.Stderr, "offload check: warning: %s\n", printable.Error(warning))
	}
	return err
}

// runCovers reports whether GPUs find code in files and directories.
func (f *checkFlags) runCovers(ctx context.Context, call *command.Call, operands []string) error {
	switch {
	case len(operands) == 0:
		return usageError("--covers: want at least one file or directory, got none")
	case f.opt.Input != "" || len(f.entries) > 0 || f.opt.MaxSize != 0 || f.opt.DeviceCode || f.opt.Linked:
		return usageError("--covers cannot be combined with the flags that check a bundle")
	}
	report, err := call.Session.Covers(ctx, engine.CoversOptions{Inputs: operands, GPUs: f.covers})
	if err != nil {
		return err
	}
	if f.opt.Report != "" && report.Covered() {
		if err := f.writeCoverage(call, report); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		err = listing.CoverageJSON(call.Stdout, report)
	case f.opt.Report == "":
		err = listing.Coverage(call.Stdout, report)
	}
	if err == nil && !report.Covered() {
		err = errors.New(report.Missing())
	}
	return err
}

// writeCoverage writes the verdicts to the file of --output.
func (f *checkFlags) writeCoverage(call *command.Call, report *coverage.Report) error {
	out := call.Session.Files().Outputs()
	defer out.Abort()
	file, err := out.Create(f.opt.Report)
	if err != nil {
		return err
	}
	if err := listing.CoverageJSON(file, report); err != nil {
		return err
	}
	return out.Commit()
}
