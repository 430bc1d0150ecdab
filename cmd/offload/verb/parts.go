package verb

import (
	"context"
	"flag"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Three verbs make what bundle --compress makes, in steps that can be cached:
// compress-part compresses the images of each frame, of a family of processors, and
// compress-plan reads them all, beside it; assemble copies what these made. For the same
// bytes give them the same --align and --level, and --pad to all parts but the last.

var compressPartVerb = verb{
	name:    "compress-part",
	operand: " FILE...",
	summary: "Compresses images that follow each other in a bundle, for assemble.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		opt := engine.PartOptions{}
		flags.StringVar(&opt.Output, "output", "", "the part, a `file`")
		flags.Uint64Var(&opt.Align, "align", 1, "offsets of entries in the bundle are multiples of this many `bytes`")
		flags.BoolVar(&opt.Pad, "pad", false, "fill the part up to a multiple of --align: other images follow in the bundle")
		flags.IntVar(&opt.Level, "level", 3, "compression `level`, as clang-offload-bundler counts them")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := required("output", opt.Output); err != nil {
				return err
			}
			if len(operands) == 0 {
				return usageError("no files: name the images of the part, in the order of the bundle")
			}
			opt.Inputs = operands
			return call.Session.CompressPart(ctx, opt)
		}
	},
}

var compressPlanVerb = verb{
	name:    "compress-plan",
	summary: "Writes header, frames and hash of a bundle whose parts are compressed on their own, for assemble.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		opt := engine.PlanOptions{}
		entries := entriesFlag(flags, "an entry of the bundle; without FILE it is empty.")
		kind := kindFlag(flags)
		flags.StringVar(&opt.Output, "output", "", "the plan, a `file`")
		flags.Uint64Var(&opt.Align, "align", 1, "offsets of entries are multiples of this many `bytes`")
		flags.IntVar(&opt.Level, "level", 3, "compression `level`, as clang-offload-bundler counts them")
		framesFlag(flags, &opt.Frames)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			ids, err := targets(*entries, *kind, target.Bundling)
			if err != nil {
				return err
			}
			for i, entry := range *entries {
				opt.Entries = append(opt.Entries, engine.BundleEntry{Target: ids[i], Input: entry.file})
			}
			return call.Session.CompressPlan(ctx, opt)
		}
	},
}

var assembleVerb = verb{
	name:    "assemble",
	operand: " PART...",
	summary: "Puts a compressed bundle together from its plan and its parts.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		opt := engine.AssembleOptions{}
		flags.StringVar(&opt.Plan, "plan", "", "what compress-plan wrote, a `file`")
		flags.StringVar(&opt.Output, "output", "", "the bundle, a `file`; - is standard output")
		flags.IntVar(&opt.Version, "format-version", 3, "`version` of the compressed bundle, 2 or 3")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := required("plan", opt.Plan); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			opt.Parts = operands
			return sizeAdvice(call.Session.Assemble(ctx, opt))
		}
	},
}
