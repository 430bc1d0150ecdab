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
	flags: func() action { return new(requireFlags) },
}

// requireFlags are the flags of offload require.
type requireFlags struct {
	opt engine.RequireOptions
}

func (f *requireFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu")
	flags.repeated("define", "a `symbol` that the object defines, for objects of the same archive that refer to it. May be repeated.", func(s string) error {
		f.opt.Define = append(f.opt.Define, s)
		return nil
	})
	flags.StringVar(&f.opt.Output, "output", "", "the object, a `file`; - is standard output")
}

func (f *requireFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	f.opt.Symbols = operands
	if len(operands) == 0 {
		return usageError("the symbols are missing: expected at least one SYMBOL")
	}
	if err := required("triple", f.opt.Triple, "output", f.opt.Output); err != nil {
		return err
	}
	return call.Session.Require(ctx, f.opt)
}
