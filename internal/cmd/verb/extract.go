package verb

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var extractVerb = verb{
	name:    "extract",
	operand: " FILE",
	summary: "Extracts device images from any file: objects, programs, libraries, archives, bitcode, offload binaries, bundles.",
	details: "\nImages without file= get default names, which are printed on standard output.",
	examples: []example{
		{"Write all device images of a library to a directory", "offload extract --output-dir images /opt/rocm/lib/librccl.so"},
		{"Write the image for one GPU to a file", "offload extract --image kind=hipv4,arch=gfx942,file=gfx942.co program"},
	},
	flags: func() action { return new(extractFlags) },
}

// extractFlags are the flags of offload extract.
type extractFlags struct {
	input   string
	images  [][]offloadbinary.String
	dir     string
	archive bool
}

func (f *extractFlags) define(flags *flagSet) {
	imagesFlag(flags, &f.images, storedKinds, "`KEY=VALUE,...,file=OUTPUT`: write the image with these properties to a file. Keys are kind, triple, arch, id (of a bundle entry), member, section, format and other keys of offload binaries. Without --image, all images are written. May be repeated.")
	flags.input(&f.input, "the `file` to read")
	flags.StringVar(&f.dir, "output-dir", ".", "`directory` for images without file=")
	flags.completeDirectories("output-dir")
	flags.BoolVar(&f.archive, "archive", false, "write an archive of all images that an --image selects")
}

// check reports flags that cannot be used together.
func (flags *extractFlags) check() error {
	for _, image := range flags.images {
		if flags.archive && value(image, "file") == "" {
			return usageError("--archive requires file=OUTPUT in every --image")
		}
	}
	return nil
}

func (flags *extractFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := oneInput(&flags.input, operands); err != nil {
		return err
	}
	if err := flags.check(); err != nil {
		return err
	}
	name := flags.input
	f, err := call.Session.Open(ctx, name, images.Options{})
	if err != nil {
		return err
	}
	defer f.Close()
	selection := engine.Selection{Requests: flags.images, Dir: flags.dir, Input: name, Archive: flags.archive}
	extractions, err := selection.Choose(f)
	if err != nil {
		return err
	}
	warnings, err := call.Session.Extract(ctx, f, extractions)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintf(call.Stderr, "offload extract: warning: %s\n", printable.Error(warning))
	}
	named := map[string]bool{}
	for _, image := range flags.images {
		named[value(image, "file")] = true
	}
	for _, x := range extractions {
		if !named[x.Output] {
			fmt.Fprintln(call.Stdout, printable.Name(x.Output))
		}
	}
	return nil
}
