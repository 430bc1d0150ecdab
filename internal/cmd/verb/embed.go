package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var embedVerb = verb{
	name:    "embed",
	operand: " PACKAGE...",
	summary: "Embeds offload binaries in a host object, for a later device link.",
	examples: []example{
		{"Make a fat object from a host object and an offload binary", "offload embed --input host.o --output fat.o device.pack"},
	},
	flags: func() action { return new(embedFlags) },
}

// embedFlags are the flags of offload embed.
type embedFlags struct {
	opt engine.EmbedOptions
}

func (f *embedFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Input, "input", "", "the host object, a `file`")
	flags.StringVar(&f.opt.Output, "output", "", "the fat object, a `file`; - is standard output")
}

func (f *embedFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := required("input", f.opt.Input, "output", f.opt.Output); err != nil {
		return err
	}
	if len(operands) == 0 {
		return usageError("the offload binaries are missing: expected at least one PACKAGE")
	}
	f.opt.Binaries = operands
	return call.Session.Embed(ctx, f.opt)
}
