package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var archiveVerb = verb{
	name:    "archive",
	operand: " FILE...",
	summary: "Creates an archive of bundles and bundled objects for several devices.",
	examples: []example{
		{"Make a static library of bundled objects", "offload archive --check --output libkernels.a gemm.o scan.o"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.ArchiveOptions
		flags.required(&opt.Output, "output", "the archive, a `file`; - is standard output")
		flags.inputs(&opt.Inputs, "the bundles and objects to put into the archive")
		flags.BoolVar(&opt.Check, "check", false, "reject files with entries that cannot be in one bundle")
		readFlags(flags, &opt.Read)
		return func(ctx context.Context, call *command.Call, _ []string) error {
			return call.Session.Archive(ctx, opt)
		}
	},
}
