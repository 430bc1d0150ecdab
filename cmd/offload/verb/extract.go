package verb

import (
	"context"
	"flag"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
)

var extractVerb = verb{
	name:    "extract",
	operand: " FILE",
	summary: "Takes device images out of any file: objects, programs, libraries, archives, bitcode, offload binaries, bundles.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		images := imagesFlag(flags, storedKinds, "`KEY=VALUE,...,file=OUTPUT`: write the image with these properties to a file. Keys are kind, triple, arch, id (of a bundle entry), member, section, format and what else offload binaries have. Without any --image all images are written. May be repeated.")
		dir := flags.String("output-dir", ".", "`directory` for images without file=, which get a name each")
		archive := flags.Bool("archive", false, "write archives, of all images that an --image chooses")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if len(operands) != 1 {
				return usageError(fmt.Sprintf("want one file, got %d", len(operands)))
			}
			selection := engine.Selection{Requests: *images, Dir: *dir, Input: operands[0], Archive: *archive}
			named := map[string]bool{}
			for _, image := range *images {
				named[value(image, "file")] = true
			}
			var unnamed []string
			plan := selection.Plan()
			warnings, err := call.Session.Extract(ctx, engine.ExtractOptions{
				Input: operands[0],
				Plan: func(images []*engine.Embedded, unwrap func(*engine.Embedded) ([]*engine.Embedded, error)) ([]engine.Extraction, error) {
					unnamed = nil
					extractions, err := plan(images, unwrap)
					for _, x := range extractions {
						if !named[x.Output] {
							unnamed = append(unnamed, x.Output)
						}
					}
					return extractions, err
				},
			})
			if err != nil {
				return err
			}
			for _, warning := range warnings {
				fmt.Fprintf(call.Stderr, "offload extract: warning: %v\n", warning)
			}
			for _, name := range unnamed {
				fmt.Fprintln(call.Stdout, name)
			}
			return nil
		}
	},
}
