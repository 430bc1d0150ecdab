package verb

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
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
	flags:       func() action { return new(listFlags) },
}

// listFlags are the flags of offload list.
type listFlags struct {
	input    string
	fileType bundle.FileType // empty: detected
	json     bool
	read     engine.ReadOptions
}

func (f *listFlags) define(flags *flagSet) {
	flags.input(&f.input, "the `file` to read")
	typeFlag(flags, &f.fileType, "a for archives, o for other files")
	flags.BoolVar(&f.json, "json", false, "print a JSON array of {id, member, bundle, offset, size, compressed}; offset and size in bytes")
	readFlags(flags, &f.read)
}

func (f *listFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := oneInput(&f.input, operands); err != nil {
		return err
	}
	file := f.input
	entries, err := call.Session.List(ctx, engine.ListOptions{Type: f.fileType, Input: file, Read: warned(call, "list", f.read)})
	if err != nil {
		return err
	}
	if f.json {
		if entries == nil {
			entries = []engine.ListedEntry{}
		}
		return listing.JSON(call.Stdout, entries)
	}
	if len(entries) == 0 {
		format := formatOf(call, file)
		what := foundFormat(format)
		if format == check.ELF || format == check.Archive {
			what += "; for the device images of a program or library, run offload inspect " + file
		}
		fmt.Fprintf(call.Stderr, "offload list: %s: no bundle entries%s\n", printable.Name(file), printable.Name(what))
	}
	for _, entry := range entries {
		fmt.Fprintln(call.Stdout, printable.Name(entry.ID))
	}
	return nil
}
