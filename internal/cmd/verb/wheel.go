package verb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// wheelFlags are the flags that the verbs for wheels share.
type wheelFlags struct {
	dir  string
	json bool
}

func (f *wheelFlags) define(flags *flagSet, verify *bool) {
	flags.StringVar(&f.dir, "output-dir", "", "the `directory` for the new wheels")
	flags.completeDirectories("output-dir")
	flags.BoolVar(verify, "verify", false, "check the structure of each changed library")
	flags.BoolVar(&f.json, "json", false, "print a JSON object with the new wheels; sizes in bytes")
}

// start completes the options that the verbs share.
func (f *wheelFlags) start(call *command.Call, dir *string, modified *time.Time) (err error) {
	if err := required("output-dir", f.dir); err != nil {
		return err
	}
	*dir = f.dir
	*modified, err = epoch(call)
	return err
}

// print prints warnings and wheels, or the report as JSON.
func (f *wheelFlags) print(call *command.Call, verb string, report any, warnings []string, wheels ...engine.WheelFile) error {
	if f.json {
		return listing.JSON(call.Stdout, report)
	}
	for _, w := range warnings {
		fmt.Fprintf(call.Stderr, "offload wheel %s: %s\n", verb, printable.Text(w))
	}
	for i := range wheels {
		line := fmt.Sprintf("%s: %d bytes", wheels[i].File, wheels[i].Size)
		if len(wheels[i].Archs) > 0 {
			line += ", " + strings.Join(wheels[i].Archs, ", ")
		}
		fmt.Fprintln(call.Stdout, printable.Text(line))
	}
	return nil
}

// epochVariable is the variable with the time of new members, in seconds since 1970.
const epochVariable = "SOURCE_DATE_EPOCH"

// epoch returns the time of new members, or zero.
func epoch(call *command.Call) (time.Time, error) {
	text, ok := call.LookupEnv(epochVariable)
	if !ok || text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%s: found %q, expected seconds since 1970", epochVariable, text)
	}
	return time.Unix(seconds, 0), nil
}

const wheelTimes = "New members have the time of METADATA, or SOURCE_DATE_EPOCH if it is set. Members that do not change are copied without compressing them again."

var wheelSplitVerb = verb{
	name:    "wheel split",
	operand: " WHEEL",
	summary: "Splits a Python wheel into a host wheel and a wheel with device code for each GPU.",
	details: "The host wheel has an extra for each GPU: pip install NAME[gfx942] installs both. " + wheelTimes,
	examples: []example{
		{"Split a wheel", "offload wheel split --output-dir dist math-1.0-cp312-cp312-linux_x86_64.whl"},
		{"Use one wheel for two GPUs", "offload wheel split --family mi300=gfx942,gfx950 --output-dir dist math-1.0-cp312-cp312-linux_x86_64.whl"},
	},
	flags: func() action { return new(wheelSplitFlags) },
}

// wheelSplitFlags are the flags of offload wheel split.
type wheelSplitFlags struct {
	wheelFlags
	opt engine.WheelSplitOptions
}

func (f *wheelSplitFlags) define(flags *flagSet) {
	o := &f.opt
	flags.input(&o.Input, "the wheel, a `file`")
	f.wheelFlags.define(flags, &o.Verify)
	flags.repeated("family", "`NAME=GPU,...`: put the code for these GPUs into one wheel. May be repeated.", func(s string) error {
		name, list, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("found %q, expected NAME=GPU,...", s)
		}
		archs, err := addTargets(nil, list)
		o.Families = append(o.Families, engine.WheelFamily{Name: name, Archs: archs})
		return err
	})
	flags.repeated("archs", "`A,...`: write the code for these targets only, and drop other code", func(s string) (err error) {
		o.Archs, err = addTargets(o.Archs, s)
		return err
	})
	flags.StringVar(&o.DeviceName, "device-name", "", "the `name` of the projects of device wheels without the GPU; it ends in -device (default: NAME-device)")
	flags.choice("scheme", "`how` code is stored, zstd or none (default zstd)", []string{"zstd", "none"}, func(s string) {
		o.Uncompressed = s == "none"
	})
	levelFlag(flags, &o.Level)
	flags.BoolVar(&o.Complete, "complete", false, "also put code for a processor into the archives of its variants if a source has no code for them; older HIP runtimes require it")
}

func (f *wheelSplitFlags) run(ctx context.Context, call *command.Call, operands []string) (err error) {
	if err := oneInput(&f.opt.Input, operands); err != nil {
		return err
	}
	if err := f.start(call, &f.opt.OutputDir, &f.opt.Modified); err != nil {
		return err
	}
	report, err := call.Session.WheelSplit(ctx, f.opt)
	if err != nil {
		return err
	}
	return f.print(call, "split", report, report.Warnings, append([]engine.WheelFile{report.Host}, report.Devices...)...)
}

var wheelMergeVerb = verb{
	name:    "wheel merge",
	operand: " WHEEL...",
	summary: "Merges a host wheel and its device wheels into one wheel.",
	details: "With some of the device wheels, the new wheel has code for their GPUs only. " + wheelTimes,
	examples: []example{
		{"Merge all wheels of a version", "offload wheel merge --output-dir whole dist/math-1.0-cp312-cp312-linux_x86_64.whl dist/math_device_gfx942-1.0-cp312-cp312-linux_x86_64.whl"},
	},
	flags: func() action { return new(wheelMergeFlags) },
}

// wheelMergeFlags are the flags of offload wheel merge.
type wheelMergeFlags struct {
	wheelFlags
	opt engine.WheelMergeOptions
}

func (f *wheelMergeFlags) define(flags *flagSet) {
	o := &f.opt
	flags.inputs(&o.Inputs)
	f.wheelFlags.define(flags, &o.Verify)
	flags.BoolVar(&o.Compress, "compress", false, "compress the bundles in libraries")
	levelFlag(flags, &o.Level)
}

func (f *wheelMergeFlags) run(ctx context.Context, call *command.Call, operands []string) (err error) {
	if f.opt.Inputs, err = someInputs(f.opt.Inputs, operands, "a host wheel and its device wheels"); err != nil {
		return err
	}
	if err := f.start(call, &f.opt.OutputDir, &f.opt.Modified); err != nil {
		return err
	}
	report, err := call.Session.WheelMerge(ctx, f.opt)
	if err != nil {
		return err
	}
	return f.print(call, "merge", report, report.Warnings, report.Wheel)
}

var wheelPruneVerb = verb{
	name:    "wheel prune",
	operand: " WHEEL...",
	summary: "Writes wheels with the device code of some GPUs only.",
	details: "Libraries and kpack archives lose the code of other GPUs, and a host wheel the extras for them. A device wheel that would be empty is not written. " + wheelTimes,
	examples: []example{
		{"Keep one GPU", "offload wheel prune --keep gfx942 --output-dir small math-1.0-cp312-cp312-linux_x86_64.whl"},
	},
	flags: func() action { return new(wheelPruneFlags) },
}

// wheelPruneFlags are the flags of offload wheel prune.
type wheelPruneFlags struct {
	wheelFlags
	opt engine.WheelPruneOptions
}

func (f *wheelPruneFlags) define(flags *flagSet) {
	o := &f.opt
	flags.inputs(&o.Inputs)
	f.wheelFlags.define(flags, &o.Verify)
	for name, list := range map[string]*[]string{"keep": &o.Keep, "drop": &o.Drop} {
		flags.repeated(name, "`A,...`: "+name+" the code for these targets", func(s string) (err error) {
			*list, err = addTargets(*list, s)
			return err
		})
	}
	flags.BoolVar(&o.IgnoreMissing, "ignore-missing", false, "warn about targets of --keep that no wheel has, instead of failing")
}

func (f *wheelPruneFlags) run(ctx context.Context, call *command.Call, operands []string) (err error) {
	if f.opt.Inputs, err = someInputs(f.opt.Inputs, operands, "at least one WHEEL"); err != nil {
		return err
	}
	if err := f.start(call, &f.opt.OutputDir, &f.opt.Modified); err != nil {
		return err
	}
	if (len(f.opt.Keep) > 0) == (len(f.opt.Drop) > 0) {
		return usageError("expected --keep or --drop")
	}
	report, err := call.Session.WheelPrune(ctx, f.opt)
	if err != nil {
		return pruneAdvice(err)
	}
	warnings := report.Warnings
	for _, file := range report.Files {
		for _, w := range file.Warnings {
			warnings = append(warnings, file.Input+": "+w)
		}
	}
	if err := f.print(call, "prune", report, slices.Compact(warnings), report.Wheels...); err != nil || f.json {
		return err
	}
	for _, name := range report.Dropped {
		fmt.Fprintln(call.Stdout, printable.Text(name+": not written, because no code is left"))
	}
	return nil
}
