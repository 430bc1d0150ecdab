package verb

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/printable"
	"github.com/rules-offload/rules_offload/engine"
)

var checkVerb = verb{
	name:    "check",
	summary: "Reads a bundle back and reports what is wrong with it.",
	examples: []example{
		{"Check a bundle for damage, and against a size budget", "offload check --max-size 100000000 --input kernels.hipfb"},
		{"Check that it has these images and no others", "offload check --input kernels.hipfb --entry host-x86_64-unknown-linux-gnu= --entry gfx942=gfx942.co"},
	},
	flags: func() action { return new(checkFlags) },
}

// checkFlags are the flags of offload check.
type checkFlags struct {
	entries []entryFlag
	kind    string
	opt     engine.CheckOptions
}

func (f *checkFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "an entry that the bundle must have, with the image that it was made of; without FILE it is empty. If any is given, the bundle must have these and no others.")
	kindFlag(flags, &f.kind)
	flags.StringVar(&f.opt.Input, "input", "", "the bundle, a `file`")
	flags.StringVar(&f.opt.Report, "output", "", "write the list of entries, in JSON, to a `file` if all is well")
	flags.Int64Var(&f.opt.MaxSize, "max-size", 0, "the `bytes` that the bundle may have; 0 for any number")
	flags.BoolVar(&f.opt.Linked, "linked", false, "the bundle becomes part of a program, which reaches 2 GiB")
}

func (f *checkFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := noOperands(operands); err != nil {
		return err
	}
	if err := required("input", f.opt.Input); err != nil {
		return err
	}
	if len(f.entries) > 0 {
		entries, err := bundleEntries(f.entries, f.kind)
		if err != nil {
			return err
		}
		f.opt.Entries = entries
	}
	warnings, err := call.Session.Check(ctx, f.opt)
	for _, warning := range warnings {
		fmt.Fprintf(call.Stderr, "offload check: warning: %s\n", printable.Error(warning))
	}
	return err
}
