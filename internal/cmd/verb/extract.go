package verb

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
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
	flags: func(flags *flagSet) runner {
		var selection engine.Selection
		flags.input(&selection.Input, "the `file` to read")
		imagesFlag(flags, &selection.Requests, storedKinds(), "`KEY=VALUE,...,file=OUTPUT`: write the image with these properties to a file. Keys are kind, triple, arch, id (of a bundle entry), member, section, format and other keys of offload binaries. Without --image, all images are written. May be repeated.")
		flags.directory(&selection.Dir, "output-dir", ".", "`directory` for images without file=")
		flags.BoolVar(&selection.Archive, "archive", false, "write an archive of all images that an --image selects")
		return func(call *invocation) error {
			return extract(call, selection)
		}
	},
}

// extract writes the selected images of a file.
func extract(call *invocation, selection engine.Selection) error {
	named := map[string]bool{}
	for _, image := range selection.Requests {
		file := image.Get("file")
		if selection.Archive && file == "" {
			return usageError("--archive requires file=OUTPUT in every --image")
		}
		named[file] = true
	}
	f, err := call.Session.Open(call.ctx, selection.Input, images.Options{})
	if err != nil {
		return err
	}
	defer f.Close()
	extractions, err := selection.Choose(f)
	if err != nil {
		return err
	}
	warnings, err := call.Session.Extract(call.ctx, f, extractions)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		call.warn("%s", printable.Error(warning))
	}
	for _, x := range extractions {
		if !named[x.Output] {
			fmt.Fprintln(call.Stdout, printable.Name(x.Output))
		}
	}
	return nil
}
