package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var unbundleVerb = verb{
	name:    "unbundle",
	summary: "Extracts device images from a bundle.",
	details: "\nA target gets the entry with the same target ID, or else an entry that leaves features unspecified.",
	examples: []example{
		{"Write the code object for one GPU to a file", "offload unbundle --input kernels.hipfb --entry gfx942=gfx942.co"},
		{"Find out why no entry serves a target", "offload unbundle --explain --input kernels.hipfb --entry gfx90a:xnack-=gfx90a.co"},
	},
	flags: func() action { return &unbundleFlags{fileType: "o"} },
}

// unbundleFlags are the flags of offload unbundle.
type unbundleFlags struct {
	entries      []entryFlag
	kind         string
	fileType     bundle.FileType
	input        string
	allowMissing bool
	number       int
	read         engine.ReadOptions
	matching
}

func (f *unbundleFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "write the image that serves a target to a file.")
	kindFlag(flags, &f.kind)
	typeFlag(flags, &f.fileType, "o")
	flags.StringVar(&f.input, "input", "", "the bundle, a `file`; - is standard input")
	flags.BoolVar(&f.allowMissing, "allow-missing", false, "write an empty file for a target that no entry of the bundle serves")
	flags.IntVar(&f.number, "bundle", 0, "the bundle to read if the file has several, counted from 1; 0 means the first that serves a target")
	readFlags(flags, &f.read)
	f.matching.define(flags)
}

func (f *unbundleFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := noOperands(operands); err != nil {
		return err
	}
	if err := required("input", f.input); err != nil {
		return err
	}
	if err := entriesType(f.fileType, "unbundle-archive"); err != nil {
		return err
	}
	requests, err := unbundleRequests(f.entries, f.kind)
	if err != nil {
		return err
	}
	_, err = call.Session.Unbundle(ctx, engine.UnbundleOptions{
		Type: f.fileType, Input: f.input, Requests: requests, AllowMissing: f.allowMissing, Bundle: f.number,
		Read: warned(call, "unbundle", f.read), Rules: f.rules, Trace: f.trace(call),
	})
	return err
}
