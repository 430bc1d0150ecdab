package verb

import (
	"context"
	"flag"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
)

var embedVerb = verb{
	name:    "embed",
	operand: " PACKAGE...",
	summary: "Puts offload binaries into a host object, for a device link later on.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var opt engine.EmbedOptions
		flags.StringVar(&opt.Input, "input", "", "the host object, a `file`")
		flags.StringVar(&opt.Output, "output", "", "the host object with the offload binaries, a `file`; - is standard output")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := required("input", opt.Input); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			if len(operands) == 0 {
				return usageError("no offload binary to embed")
			}
			opt.Packages = operands
			return call.Session.Embed(ctx, opt)
		}
	},
}
