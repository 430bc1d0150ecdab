package verb

import (
	"context"
	"flag"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
)

var checkVerb = verb{
	name:    "check",
	summary: "Reads a bundle back and tells what is wrong with it.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var opt engine.CheckOptions
		entries := entriesFlag(flags, "an entry that the bundle must have, with the image that it was made of; without FILE it is empty. If any is given, the bundle must have these and no others.")
		kind := kindFlag(flags)
		flags.StringVar(&opt.Input, "input", "", "the bundle, a `file`")
		flags.StringVar(&opt.Report, "output", "", "write the list of entries, in JSON, to a `file` if all is well")
		flags.Int64Var(&opt.MaxSize, "max-size", 0, "the `bytes` that the bundle may have; 0 for any number")
		flags.BoolVar(&opt.Linked, "linked", false, "the bundle becomes part of a program, which reaches 2 GiB")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("input", opt.Input); err != nil {
				return err
			}
			if len(*entries) > 0 {
				ids, err := targets(*entries, *kind, target.Bundling)
				if err != nil {
					return err
				}
				for i, entry := range *entries {
					opt.Entries = append(opt.Entries, engine.BundleEntry{Target: ids[i], Input: entry.file})
				}
			}
			warnings, err := call.Session.Check(ctx, opt)
			for _, warning := range warnings {
				fmt.Fprintf(call.Stderr, "offload check: warning: %v\n", warning)
			}
			return err
		}
	},
}
