package verb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var checkVerb = verb{
	name:    "check",
	operand: " FILE, or --covers=GPUS FILE|DIR..., or --package FILE|DIR...",
	summary: "Verifies a bundle, reports whether files have code for given GPUs, or verifies packages.",
	details: "\nWith --covers, the operands are files, directories and packages: libraries, installed libraries, wheels, zip, tar, deb and rpm files. Each file with device code must have code that the HIP runtime loads on each GPU." +
		"\nWith --package, the operands are packages and directories that are installed together. The files in them must fit each other: libraries, the archives with their code, data for GPUs, and the lists of files of wheels. Each fault is a line with the file and what to do.",
	examples: []example{
		{"Check a bundle for damage, and against a size budget", "offload check --max-size 100MB kernels.hipfb"},
		{"Check that a bundle has these images and no others", "offload check kernels.hipfb --entry host-x86_64-unknown-linux-gnu= --entry gfx942=gfx942.co"},
		{"Check that all libraries in a directory have code for GPUs", "offload check --covers=gfx942,gfx90a:xnack+ /opt/rocm/lib"},
		{"Check wheels before a release", "offload check --package --covers=gfx942 dist/torch-2.9.0.whl dist/torch_device_gfx942-2.9.0.whl"},
	},
	flags: func(flags *flagSet) runner { return new(checkFlags).define(flags) },
}

// checkFlags are the flags of offload check.
type checkFlags struct {
	entries entries
	inputs  []string
	opt     engine.CheckOptions
	covers  []coverage.GPU
	pkg     bool
	json    bool
}

// define defines the flags and returns what runs the verb.
func (f *checkFlags) define(flags *flagSet) runner {
	f.entries.define(flags, "an entry that the bundle must have, and the file with its contents; without FILE the entry is empty. If the flag is given, the bundle must have no other entries.")
	flags.inputsFlag(&f.inputs)
	flags.StringVar(&f.opt.Report, "output", "", "if the checks pass, write the entries, with --covers the verdicts, or with --package the warnings, as JSON to a `file`")
	flags.size(&f.opt.MaxSize, "max-size", "the largest `size` of the bundle, such as 100MB (default: no limit)")
	flags.BoolVar(&f.opt.DeviceCode, "device-code", false, "require images for AMD GPUs to be complete AMDGPU ELF files, LLVM bitcode or SPIR-V")
	flags.repeated("covers", "comma-separated `GPUs` that the files must have code for, such as gfx942,gfx90a:xnack+. A feature without + or - stands for both states.", f.addGPUs)
	flags.BoolVar(&f.pkg, "package", false, "check that the files of packages and directories fit each other; with --covers, also that they have code for the GPUs")
	flags.BoolVar(&f.json, "json", false, "with --covers, print a JSON object with the verdict for each file, GPU and mode; with --package, one with the faults")
	flags.BoolVar(&f.opt.Linked, "linked", false, "require the bundle to fit into a program, which can address 2 GiB of data")
	return f.run
}

// addGPUs adds the GPUs of a list to those of --covers.
func (f *checkFlags) addGPUs(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		if err := checkGPU(name); err != nil {
			return err
		}
		gpu, err := coverage.ParseGPU(name)
		var malformed *target.TargetIDError
		switch {
		case errors.As(err, &malformed):
			return fmt.Errorf("%q: %s", name, malformed.Reason)
		case err != nil:
			return err
		case slices.ContainsFunc(f.covers, func(other coverage.GPU) bool { return other.Name == name }):
			return fmt.Errorf("%s is named twice", name)
		}
		f.covers = append(f.covers, gpu)
	}
	return nil
}

func (f *checkFlags) run(call *invocation) error {
	if f.pkg {
		return f.runPackage(call)
	}
	if len(f.covers) > 0 {
		return f.runCovers(call)
	}
	if f.json {
		return usageError("--json requires --covers or --package")
	}
	inputs := append(f.inputs, call.operands...)
	switch len(inputs) {
	case 0:
		return usageError("the input is missing: expected FILE, or --covers=GPU and files or directories")
	case 1:
		f.opt.Input = inputs[0]
	default:
		return usageError(fmt.Sprintf("expected one bundle, found %d: %s; to report which GPUs have code, add --covers=GPU", len(inputs), strings.Join(inputs, ", ")))
	}
	if len(f.entries.list) > 0 {
		var err error
		if f.opt.Entries, err = f.entries.bundle(); err != nil {
			return err
		}
	}
	warnings, err := call.Session.Check(call.ctx, f.opt)
	for _, warning := range warnings {
		call.warn("%s", printable.Error(warning))
	}
	return err
}

// runCovers reports whether GPUs find code in files and directories.
func (f *checkFlags) runCovers(call *invocation) error {
	if err := f.withoutBundle(call, "--covers", "files or directories for --covers"); err != nil {
		return err
	}
	report, err := coverage.Check(call.ctx, call.Session, coverage.Options{Inputs: f.inputs, GPUs: f.covers, XZ: xzProgram()})
	if err != nil {
		return err
	}
	var missing error
	if !report.Covered() {
		missing = errors.New(report.Missing())
	}
	return f.result(call, report, missing, func() error {
		if f.opt.Report != "" {
			return nil
		}
		return listing.Coverage(call.Stdout, report)
	})
}

// xzProgram returns the path of the program xz, or "" if it is not installed.
func xzProgram() string {
	path, err := exec.LookPath("xz")
	if err != nil {
		return ""
	}
	return path
}

// withoutBundle adds the operands to the inputs, which what describes, and returns an error for
// flags about bundles.
func (f *checkFlags) withoutBundle(call *invocation, mode, what string) error {
	if err := someInputs(&f.inputs, call.operands, what); err != nil {
		return err
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--entry", len(f.entries.list) > 0}, {"--max-size", f.opt.MaxSize != 0}, {"--device-code", f.opt.DeviceCode}, {"--linked", f.opt.Linked}} {
		if flag.set {
			return usageError(flag.name + " cannot be combined with " + mode)
		}
	}
	return nil
}

// runPackage checks that the files of packages fit each other.
func (f *checkFlags) runPackage(call *invocation) error {
	if err := f.withoutBundle(call, "--package", "packages or directories for --package"); err != nil {
		return err
	}
	inputs := f.inputs
	// Among the files of a package, text is no fault.
	if !slices.ContainsFunc(inputs, func(name string) bool {
		format := formatOf(call, name)
		return format != check.Text && format != check.Empty
	}) {
		return fmt.Errorf("%s%s, expected a package, a directory or a file with device code", inputs[0], found(call, inputs[0]))
	}
	report, err := coverage.CheckPackage(call.ctx, call.Session, coverage.Options{Inputs: inputs, GPUs: f.covers, XZ: xzProgram()})
	if err != nil {
		return err
	}
	fault := report.Err()
	if fault != nil {
		name := inputs[0]
		if more := len(inputs) - 1; more > 0 {
			name = fmt.Sprintf("%s and %d more", name, more)
		}
		fault = fmt.Errorf("%s: %w", name, fault)
	}
	return f.result(call, report, fault, func() error { return listing.Package(call.Stdout, report) })
}

// result writes a report to the file of --output if the check did not fail, prints it as JSON or by
// print, and returns the failure.
func (f *checkFlags) result(call *invocation, report any, failure error, print func() error) error {
	if f.opt.Report != "" && failure == nil {
		if err := call.Session.WriteFiles(call.ctx, engine.Output{Name: f.opt.Report, Write: func(w io.Writer) error { return listing.JSON(w, report) }}); err != nil {
			return err
		}
	}
	if f.json {
		print = func() error { return listing.JSON(call.Stdout, report) }
	}
	return cmp.Or(print(), failure)
}
