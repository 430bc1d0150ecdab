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
	flags: func() action { return new(archiveFlags) },
}

// archiveFlags are the flags of offload archive.
type archiveFlags struct {
	inputs []string
	output string
	check  bool
	read   engine.ReadOptions
}

func (f *archiveFlags) define(flags *flagSet) {
	flags.inputs(&f.inputs)
	flags.StringVar(&f.output, "output", "", "the archive, a `file`; - is standard output")
	flags.BoolVar(&f.check, "check", false, "reject files with entries that cannot be in one bundle")
	readFlags(flags, &f.read)
}

func (f *archiveFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := required("output", f.output); err != nil {
		return err
	}
	inputs, err := someInputs(f.inputs, operands, "the bundles and objects to put into the archive")
	if err != nil {
		return err
	}
	return call.Session.Archive(ctx, engine.ArchiveOptions{Inputs: inputs, Output: f.output, Check: f.check, Read: warned(call, "archive", f.read)})
}
