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

// wheelFlags defines the flags that the verbs for wheels share. It returns --json.
func wheelFlags(flags *flagSet, dir *string, verify *bool) (asJSON *bool) {
	flags.directory(dir, "output-dir", "", "the `directory` for the new wheels")
	flags.check(func([]string) error { return required("output-dir", *dir) })
	flags.BoolVar(verify, "verify", false, "check the structure of each changed library")
	return flags.Bool("json", false, "print a JSON object with the new wheels; sizes in bytes")
}

// printWheels prints warnings and wheels, or the report as JSON.
func printWheels(call *command.Call, verb string, asJSON bool, report any, warnings []string, wheels ...engine.WheelFile) error {
	if asJSON {
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
	flags: func(flags *flagSet) runner {
		var opt engine.WheelSplitOptions
		flags.input(&opt.Input, "the wheel, a `file`")
		json := wheelFlags(flags, &opt.OutputDir, &opt.Verify)
		flags.repeated("family", "`NAME=GPU,...`: put the code for these GPUs into one wheel. May be repeated.", func(s string) error {
			name, list, ok := strings.Cut(s, "=")
			if !ok {
				return fmt.Errorf("found %q, expected NAME=GPU,...", s)
			}
			archs, err := addTargets(nil, list)
			opt.Families = append(opt.Families, engine.WheelFamily{Name: name, Archs: archs})
			return err
		})
		flags.targets(&opt.Archs, "archs", "`A,...`: write the code for these targets only, and drop other code")
		flags.StringVar(&opt.DeviceName, "device-name", "", "the `name` of the projects of device wheels without the GPU; it ends in -device (default: NAME-device)")
		schemeFlag(flags, &opt.Uncompressed)
		levelFlag(flags, &opt.Level)
		flags.BoolVar(&opt.Complete, "complete", false, "also put code for a processor into the archives of its variants if a source has no code for them; older HIP runtimes require it")
		return func(ctx context.Context, call *command.Call, _ []string) (err error) {
			if opt.Modified, err = epoch(call); err != nil {
				return err
			}
			report, err := call.Session.WheelSplit(ctx, opt)
			if err != nil {
				return err
			}
			return printWheels(call, "split", *json, report, report.Warnings, append([]engine.WheelFile{report.Host}, report.Devices...)...)
		}
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
		var opt engine.WheelMergeOptions
		flags.inputs(&opt.Inputs, "a host wheel and its device wheels")
		json := wheelFlags(flags, &opt.OutputDir, &opt.Verify)
		flags.BoolVar(&opt.Compress, "compress", false, "compress the bundles in libraries")
		levelFlag(flags, &opt.Level)
		return func(ctx context.Context, call *command.Call, _ []string) (err error) {
			if opt.Modified, err = epoch(call); err != nil {
				return err
			}
			report, err := call.Session.WheelMerge(ctx, opt)
			if err != nil {
				return err
			}
			return printWheels(call, "merge", *json, report, report.Warnings, report.Wheel)
		}
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
		var opt engine.WheelPruneOptions
		flags.inputs(&opt.Inputs, "at least one WHEEL")
		json := wheelFlags(flags, &opt.OutputDir, &opt.Verify)
		flags.targets(&opt.Keep, "keep", "`A,...`: keep the code for these targets")
		flags.targets(&opt.Drop, "drop", "`A,...`: drop the code for these targets")
		flags.BoolVar(&opt.IgnoreMissing, "ignore-missing", false, "warn about targets of --keep that no wheel has, instead of failing")
		return func(ctx context.Context, call *command.Call, _ []string) (err error) {
			if opt.Modified, err = epoch(call); err != nil {
				return err
			}
			if (len(opt.Keep) > 0) == (len(opt.Drop) > 0) {
				return usageError("expected --keep or --drop")
			}
			report, err := call.Session.WheelPrune(ctx, opt)
			if err != nil {
				return pruneAdvice(err)
			}
			warnings := report.Warnings
			for _, file := range report.Files {
				for _, w := range file.Warnings {
					warnings = append(warnings, file.Input+": "+w)
				}
			}
			if err := printWheels(call, "prune", *json, report, slices.Compact(warnings), report.Wheels...); err != nil || *json {
				return err
			}
			for _, name := range report.Dropped {
				printLine(call, "%s: not written, because no code is left", name)
			}
			return nil
		}
	},
}
