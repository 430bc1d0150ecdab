package verb

import (
	"context"
	"flag"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
)

var isolateVerb = verb{
	name:    "isolate",
	summary: "Completes a relocatable device link: the object's offload entries become its own.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var opt engine.IsolateOptions
		flags.StringVar(&opt.Input, "input", "", "host objects linked by ld -r with a registration object, a `file`; with --suffix also one host object")
		flags.StringVar(&opt.Output, "output", "", "the isolated object, a `file`; - is standard output")
		flags.StringVar(&opt.Suffix, "suffix", "", "`text` that tells its entries from others: their section is llvm_offload_entries_TEXT (default made from the input)")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("input", opt.Input); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			return call.Session.Isolate(ctx, opt)
		}
	},
}
