package verb

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
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
		{"List the lines of source that most of the code comes from, if it has debug information", "offload inspect --sources kernels.hipfb"},
		{"List the sections of images, for example of counters for profiles and coverage", "offload inspect --sections kernels.hipfb"},
		{"List the kernels as JSON", "offload inspect --kernels --json kernels.hipfb"},
	},
	onlyOutputs: true,
	flags:       func(flags *flagSet) runner { return new(inspectFlags).define(flags) },
}

// inspectFlags are the flags of offload inspect.
type inspectFlags struct {
	inputs                          []string
	json, kernels, summary, mangled bool
	sections, sources               bool
}

// define defines the flags and returns what runs the verb.
func (f *inspectFlags) define(flags *flagSet) runner {
	flags.check(f.conflicts)
	flags.inputs(&f.inputs, "at least one FILE")
	flags.BoolVar(&f.json, "json", false, "print a JSON array with an object for each image, or for each kernel; sizes and offsets in bytes")
	flags.BoolVar(&f.kernels, "kernels", false, "list the kernels of the images: registers, spills, memory, code size, occupancy and its limit")
	flags.BoolVar(&f.sections, "sections", false, "list the sections of ELF images: code, debug information, counters for profiles and coverage, and others")
	flags.BoolVar(&f.sources, "sources", false, "list the bytes of code from each line of source, by the line tables of the images; with --kernels --json, also for each kernel")
	flags.BoolVar(&f.summary, "summary", false, "print totals for each architecture instead of single images")
	flags.BoolVar(&f.mangled, "mangled", false, "with --kernels, print mangled names")
	return f.run
}

// conflicts returns an error for flags that cannot be combined.
func (f *inspectFlags) conflicts([]string) error {
	switch {
	case f.kernels && f.summary:
		return usageError("--kernels cannot be combined with --summary")
	case f.sources && (f.summary || f.kernels && !f.json):
		return usageError("--sources can be combined with --json, or with --kernels --json")
	case f.sections && (f.kernels || f.sources || f.summary):
		return usageError("--sections can be combined with --json only")
	case f.mangled && !f.kernels:
		return usageError("--mangled requires --kernels")
	}
	return nil
}

func (f *inspectFlags) run(call *invocation) error {
	var files []*engine.DeviceFile
	for _, name := range f.inputs {
		file, err := f.read(call, name)
		if err != nil {
			return err
		}
		files = append(files, file)
		switch {
		case f.json:
		case len(file.Found) == 0:
			fmt.Fprintf(call.Stderr, "offload inspect: %s: %s\n", printable.Name(name), cmp.Or(codeElsewhere(call, name), "no device images"+printable.Name(found(call, name))))
		case f.kernels && !listing.HasKernels(file):
			fmt.Fprintf(call.Stderr, "offload inspect: %s: no kernels\n", printable.Name(name))
		case f.sources:
			warnWithoutSources(call, file)
		}
	}
	list := listing.Images
	switch {
	case f.sections:
		list = listing.Sections
	case f.kernels:
		list = listing.Kernels
	case f.sources:
		list = listing.Sources
	case f.summary:
		list = listing.Summary
	}
	return list(call.Stdout, files, listing.Options{JSON: f.json, Named: len(files) > 1, Mangled: f.mangled})
}

// codeElsewhere names the kpack archives with the device code of a file, or is empty.
func codeElsewhere(call *invocation, name string) string {
	list, err := call.Session.KpackList(call.ctx, []string{name})
	if err != nil || list[0].Host == nil || len(list[0].Host.SearchPaths) == 0 {
		return ""
	}
	return "its device code is in kpack archives: " + printable.Name(strings.Join(list[0].Host.SearchPaths, ", ")) + "; name these files instead"
}

// warnWithoutSources names the images without sources, and the reasons.
func warnWithoutSources(call *invocation, file *engine.DeviceFile) {
	for i := range file.Images {
		if img := &file.Images[i]; img.NoSources != "" {
			fmt.Fprintf(call.Stderr, "offload inspect: %s: image %d (%s): %s\n", printable.Name(file.Name), img.Index, printable.Name(cmp.Or(img.Arch, img.ID)), printable.Name(img.NoSources))
		}
	}
}

// read finds the images of a file, and their kernels if they are requested.
func (f *inspectFlags) read(call *invocation, name string) (*engine.DeviceFile, error) {
	return call.Session.Inspect(call.ctx, name, engine.InspectOptions{Kernels: f.kernels || f.sections, Sources: f.sources})
}
