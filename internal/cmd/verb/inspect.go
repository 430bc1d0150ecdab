package verb

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var inspectVerb = verb{
	name:    "inspect",
	operand: " FILE...",
	summary: "Lists the device images in any file: objects, programs, libraries, archives, bitcode, offload binaries, bundles, code objects.",
	examples: []example{
		{"List the device images of a library", "offload inspect /opt/rocm/lib/librccl.so"},
		{"Show the size of its code for each architecture", "offload inspect --summary /opt/rocm/lib/librccl.so"},
		{"List the registers, spills and occupancy of all kernels", "offload inspect --kernels kernels.hipfb gfx942.co"},
		{"The same as JSON", "offload inspect --kernels --json kernels.hipfb"},
	},
	flags: func() action { return new(inspectFlags) },
}

// inspectFlags are the flags of offload inspect.
type inspectFlags struct {
	json, kernels, summary, mangled bool
}

func (f *inspectFlags) define(flags *flagSet) {
	flags.BoolVar(&f.json, "json", false, "print a JSON array with an object for each image, or for each kernel; sizes and offsets in bytes")
	flags.BoolVar(&f.kernels, "kernels", false, "list the kernels of the images: registers, spills, memory, code size, occupancy and its limit")
	flags.BoolVar(&f.summary, "summary", false, "print totals for each architecture instead of single images")
	flags.BoolVar(&f.mangled, "mangled", false, "with --kernels, print mangled names")
}

func (f *inspectFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	switch {
	case len(operands) == 0:
		return usageError("expected at least one file, found none")
	case f.kernels && f.summary:
		return usageError("--kernels and --summary cannot be used together")
	case f.mangled && !f.kernels:
		return usageError("--mangled requires --kernels")
	}
	several := len(operands) > 1
	var files []*engine.DeviceFile
	for _, name := range operands {
		file, err := f.read(ctx, call, name)
		if err != nil {
			return err
		}
		if files = append(files, file); len(file.Found) == 0 && !f.json {
			fmt.Fprintf(call.Stderr, "offload inspect: %s: no device images\n", printable.Name(name))
		}
	}
	switch {
	case f.kernels && f.json:
		return listing.KernelsJSON(call.Stdout, files, several)
	case f.kernels:
		return listing.Kernels(call.Stdout, files, several, f.mangled)
	case f.summary && f.json:
		return listing.SummaryJSON(call.Stdout, files)
	case f.summary:
		return listing.Summary(call.Stdout, files)
	case f.json:
		return listing.ImagesJSON(call.Stdout, files, several)
	}
	return listing.Images(call.Stdout, files, several)
}

// read finds the images of a file, and their kernels if they are requested.
func (f *inspectFlags) read(ctx context.Context, call *command.Call, name string) (*engine.DeviceFile, error) {
	inspect := call.Session.Inspect
	if f.kernels {
		inspect = call.Session.Kernels
	}
	return inspect(ctx, engine.InspectOptions{Input: name})
}
