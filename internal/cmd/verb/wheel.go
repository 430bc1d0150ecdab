package verb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// wheelFlags are the flags that the verbs for wheels share.
type wheelFlags struct {
	modified *time.Time
	json     *bool
}

// newWheelFlags defines the flags. The runner sets modified, the time of new members.
func newWheelFlags(flags *flagSet, dir *string, verify *bool, modified *time.Time) wheelFlags {
	flags.directory(dir, "output-dir", "", "the `directory` for the new wheels")
	flags.check(func([]string) error { return required("output-dir", *dir) })
	flags.BoolVar(verify, "verify", false, "check the structure of each changed library")
	return wheelFlags{modified, flags.Bool("json", false, "print a JSON object with the new wheels; sizes in bytes")}
}

// runner returns a runner that prints what write returns: warnings and lines, or the report as JSON.
func (f wheelFlags) runner(write func(call *invocation) (report any, warnings, lines []string, err error)) runner {
	return func(call *invocation) (err error) {
		if *f.modified, err = epoch(call); err != nil {
			return err
		}
		report, warnings, lines, err := write(call)
		switch {
		case err != nil:
			return err
		case *f.json:
			return listing.JSON(call.Stdout, report)
		}
		for _, w := range warnings {
			fmt.Fprintf(call.Stderr, "offload %s: %s\n", call.verb, printable.Text(w))
		}
		for _, line := range lines {
			call.print("%s", line)
		}
		return nil
	}
}

// wheelLines returns a line for each wheel.
func wheelLines(wheels ...installation.WheelFile) (lines []string) {
	for i := range wheels {
		line := fmt.Sprintf("%s: %d bytes", wheels[i].File, wheels[i].Size)
		if len(wheels[i].Archs) > 0 {
			line += ", " + strings.Join(wheels[i].Archs, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

// epochVariable is the variable with the time of new members, in seconds since 1970.
const epochVariable = "SOURCE_DATE_EPOCH"

// epoch returns the time of new members, or zero.
func epoch(call *invocation) (time.Time, error) {
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
	flags: func(flags *flagSet) runner {
		var opt installation.SplitWheelOptions
		flags.input(&opt.Input, "the wheel, a `file`")
		wheels := newWheelFlags(flags, &opt.OutputDir, &opt.Verify, &opt.Modified)
		flags.repeated("family", "`NAME=GPU,...`: put the code for these GPUs into one wheel. May be repeated.", func(s string) error {
			name, list, ok := strings.Cut(s, "=")
			if !ok {
				return fmt.Errorf("found %q, expected NAME=GPU,...", s)
			}
			archs, err := addTargets(nil, list)
			opt.Families = append(opt.Families, installation.WheelFamily{Name: name, Archs: archs})
			return err
		})
		flags.targets(&opt.Archs, "archs", "`A,...`: write the code for these targets only, and drop other code")
		flags.StringVar(&opt.DeviceName, "device-name", "", "the `name` of the projects of device wheels without the GPU; it ends in -device (default: NAME-device)")
		flags.repeated("device-requires", "a `requirement` of each device wheel; @GFXARCH@ in it stands for the GPU: math-device-@GFXARCH@==7.2. May be repeated.", func(s string) error {
			opt.Requires = append(opt.Requires, s)
			return nil
		})
		schemeFlag(flags, &opt.Uncompressed)
		levelFlag(flags, &opt.Level)
		flags.BoolVar(&opt.Complete, "complete", false, "also put code for a processor into the archives of its variants if a source has no code for them; older HIP runtimes require it")
		return wheels.runner(func(call *invocation) (any, []string, []string, error) {
			report, err := installation.SplitWheel(call.ctx, call.Session, opt)
			return report, report.Warnings, wheelLines(append([]installation.WheelFile{report.Host}, report.Devices...)...), err
		})
	},
}

var wheelMergeVerb = verb{
	name:    "wheel merge",
	operand: " WHEEL...",
	summary: "Merges a host wheel and its device wheels into one wheel.",
	details: "With some of the device wheels, the new wheel has code for their GPUs only. " + wheelTimes,
	examples: []example{
		{"Merge all wheels of a version", "offload wheel merge --output-dir whole dist/math-1.0-cp312-cp312-linux_x86_64.whl dist/math_device_gfx942-1.0-cp312-cp312-linux_x86_64.whl"},
	},
	flags: func(flags *flagSet) runner {
		var opt installation.MergeWheelOptions
		flags.inputs(&opt.Inputs, "a host wheel and its device wheels")
		wheels := newWheelFlags(flags, &opt.OutputDir, &opt.Verify, &opt.Modified)
		flags.BoolVar(&opt.Compress, "compress", false, "compress the bundles in libraries")
		levelFlag(flags, &opt.Level)
		return wheels.runner(func(call *invocation) (any, []string, []string, error) {
			report, err := installation.MergeWheels(call.ctx, call.Session, opt)
			return report, report.Warnings, wheelLines(report.Wheel), err
		})
	},
}

var wheelPruneVerb = verb{
	name:    "wheel prune",
	operand: " WHEEL...",
	summary: "Writes wheels with the device code of some GPUs only.",
	details: "Libraries and kpack archives lose the code of other GPUs, and a host wheel the extras for them. A device wheel that would be empty is not written. " + wheelTimes,
	examples: []example{
		{"Keep one GPU", "offload wheel prune --keep gfx942 --output-dir small math-1.0-cp312-cp312-linux_x86_64.whl"},
	},
	flags: func(flags *flagSet) runner {
		var opt installation.PruneWheelOptions
		flags.inputs(&opt.Inputs, "at least one WHEEL")
		wheels := newWheelFlags(flags, &opt.OutputDir, &opt.Verify, &opt.Modified)
		flags.targets(&opt.Keep, "keep", "`A,...`: keep the code for these targets")
		flags.targets(&opt.Drop, "drop", "`A,...`: drop the code for these targets")
		strict := keepEmptyFlag(flags, "yes")
		flags.BoolVar(&opt.IgnoreMissing, "ignore-missing", false, "warn about targets of --keep that no wheel has, instead of failing")
		return wheels.runner(func(call *invocation) (any, []string, []string, error) {
			if (len(opt.Keep) > 0) == (len(opt.Drop) > 0) {
				return nil, nil, nil, usageError("expected --keep or --drop")
			}
			opt.Strict = strict(false)
			report, err := installation.PruneWheels(call.ctx, call.Session, opt)
			warnings, lines := report.Warnings, wheelLines(report.Wheels...)
			for _, file := range report.Files {
				for _, w := range file.Warnings {
					warnings = append(warnings, file.Input+": "+w)
				}
			}
			if n := len(report.Removed); n > 0 {
				lines = append(lines, fmt.Sprintf("removed %d %s for other GPUs", n, printable.Noun(n, "file")))
			}
			for _, name := range report.Empty {
				lines = append(lines, name+": no device code is left")
			}
			for _, name := range report.Dropped {
				lines = append(lines, name+": not written, because no code is left")
			}
			return report, slices.Compact(warnings), lines, pruneAdvice(err)
		})
	},
}
