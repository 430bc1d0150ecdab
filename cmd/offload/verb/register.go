package verb

import (
	"context"
	"flag"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/register"
)

var registerVerb = verb{
	name:    "register",
	operand: " IMAGE...",
	summary: "Makes an object that registers device images when a program starts.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var opt engine.RegisterOptions
		flags.Func("kind", "the runtime: openmp, hip or cuda", func(s string) (err error) {
			opt.Kind, err = register.ParseKind(s)
			return err
		})
		flags.StringVar(&opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu")
		flags.StringVar(&opt.Output, "output", "", "the object, a `file`; - is standard output")
		flags.StringVar(&opt.Entries, "entries", register.EntriesSection, "the `section` of the offload entries that go with the images")
		flags.Func("keep-entries", "a host object `file` whose offload entries lld must keep with --gc-sections. May be repeated.", func(s string) error {
			opt.KeepEntries = append(opt.KeepEntries, s)
			return nil
		})
		flags.BoolVar(&opt.Relocatable, "relocatable", false, "hide OpenMP images from later device links")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			opt.Images = operands
			switch {
			case opt.Kind == 0:
				return usageError("--kind is missing")
			case len(operands) == 0:
				return usageError("no device image to register")
			case opt.Kind != register.OpenMP && len(operands) > 1:
				return usageError(opt.Kind.String() + " registers one fat binary: put the images into a bundle first")
			}
			if err := required("triple", opt.Triple); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			return call.Session.Register(ctx, opt)
		}
	},
}
