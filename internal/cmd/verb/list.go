package verb

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var listVerb = verb{
	name:    "list",
	operand: " FILE",
	summary: "Lists the entries of the bundles in a file.",
	details: "\nTo list the images in programs, libraries and objects, use offload inspect.",
	examples: []example{
		{"List the entry IDs of a bundle, a compressed one or an archive of bundles", "offload list kernels.hipfb"},
		{"List offsets and sizes as well", "offload list --json kernels.hipfb"},
	},
	onlyOutputs: true,
	flags: func(flags *flagSet) runner {
		var opt engine.ListOptions
		flags.input(&opt.Input, "the `file` to read")
		typeFlag(flags, &opt.Type, "a for archives, o for other files")
		json := flags.Bool("json", false, "print a JSON array of {id, member, bundle, offset, size, compressed}; offset and size in bytes")
		readFlags(flags, &opt.Read)
		return func(call *invocation) error {
			entries, err := call.Session.List(call.ctx, opt)
			if err != nil {
				return err
			}
			if *json {
				if entries == nil {
					entries = []engine.ListedEntry{}
				}
				return listing.JSON(call.Stdout, entries)
			}
			if len(entries) == 0 {
				what := foundCode(call, opt.Input, "for the device images of a program or library, run offload inspect "+opt.Input, check.ELF, check.Archive)
				fmt.Fprintf(call.Stderr, "offload list: %s: no bundle entries%s\n", printable.Name(opt.Input), printable.Name(what))
			}
			for _, entry := range entries {
				fmt.Fprintln(call.Stdout, printable.Name(entry.ID))
			}
			return nil
		}
	},
}
