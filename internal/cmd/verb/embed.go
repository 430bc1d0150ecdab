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
	flags: func(flags *flagSet) runner {
		var opt engine.EmbedOptions
		flags.required(&opt.Input, "input", "the host object, a `file`")
		flags.required(&opt.Output, "output", "the fat object, a `file`; - is standard output")
		flags.operands(&opt.Binaries, "the offload binaries are missing: expected at least one PACKAGE")
		return func(ctx context.Context, call *command.Call, _ []string) error {
			return call.Session.Embed(ctx, opt)
		}
	},
}
