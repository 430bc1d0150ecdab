package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var requireVerb = verb{
	name:    "require",
	operand: " SYMBOL...",
	summary: "Writes an object that makes a host link fail unless other inputs define the given symbols.",
	examples: []example{
		{"Require a device link in programs that link the object", "offload require --triple x86_64-unknown-linux-gnu --output needs.o 'device link of //math'"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.RequireOptions
		flags.operands(&opt.Symbols, "the symbols are missing: expected at least one SYMBOL")
		flags.required(&opt.Triple, "triple", "the host's target `triple`, such as x86_64-unknown-linux-gnu")
		flags.list(&opt.Define, "define", "a `symbol` that the object defines, for objects of the same archive that refer to it. May be repeated.")
		flags.required(&opt.Output, "output", "the object, a `file`; - is standard output")
		return func(ctx context.Context, call *command.Call, _ []string) error {
			return call.Session.Require(ctx, opt)
		}
	},
}
