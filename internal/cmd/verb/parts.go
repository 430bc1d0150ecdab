package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// Three verbs create the output of bundle --compress in steps that can be cached. compress-part
// compresses the images of one frame, which are for a family of processors. In parallel,
// compress-plan reads all images. assemble copies their outputs. The bytes are the same if all
// calls have the same --align and --level, and all parts except the last have --pad.

var compressPartVerb = verb{
	name:    "compress-part",
	operand: " FILE...",
	summary: "Compresses adjacent images of a bundle, for assemble.",
	examples: []example{
		{"Compress the first two of three images", "offload compress-part --align 4096 --pad --output first.part gfx90a.co gfx942.co"},
	},
	flags: func() action { return new(compressPartFlags) },
}

// compressPartFlags are the flags of offload compress-part.
type compressPartFlags struct {
	opt engine.PartOptions
}

func (f *compressPartFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Output, "output", "", "the part, a `file`")
	flags.align(&f.opt.Align)
	flags.BoolVar(&f.opt.Pad, "pad", false, "fill the part up to a multiple of --align, because other images follow in the bundle")
	levelFlag(flags, &f.opt.Level)
}

func (f *compressPartFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := required("output", f.opt.Output); err != nil {
		return err
	}
	if len(operands) == 0 {
		return usageError("the inputs are missing: expected the images of the part, in the order of the bundle")
	}
	f.opt.Inputs = operands
	return call.Session.CompressPart(ctx, f.opt)
}

var compressPlanVerb = verb{
	name:    "compress-plan",
	summary: "Writes the header, frames and hash of a bundle whose parts are compressed separately, for assemble.",
	examples: []example{
		{"Plan a bundle of three images", "offload compress-plan --align 4096 --output bundle.plan --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co --entry gfx1100=gfx1100.co"},
	},
	flags: func() action { return new(compressPlanFlags) },
}

// compressPlanFlags are the flags of offload compress-plan.
type compressPlanFlags struct {
	entries []entryFlag
	kind    string
	opt     engine.CompressPlanOptions
}

func (f *compressPlanFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "an entry of the bundle; without FILE it is empty.")
	kindFlag(flags, &f.kind)
	flags.StringVar(&f.opt.Output, "output", "", "the plan, a `file`")
	flags.align(&f.opt.Align)
	levelFlag(flags, &f.opt.Level)
	framesFlag(flags, &f.opt.Frames)
}

func (f *compressPlanFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := noOperands(operands); err != nil {
		return err
	}
	if err := required("output", f.opt.Output); err != nil {
		return err
	}
	entries, err := bundleEntries(f.entries, f.kind)
	if err != nil {
		return err
	}
	f.opt.Entries = entries
	return call.Session.CompressPlan(ctx, f.opt)
}

var assembleVerb = verb{
	name:    "assemble",
	operand: " PART...",
	summary: "Assembles a compressed bundle from its plan and its parts.",
	examples: []example{
		{"Assemble a bundle from a plan and two parts", "offload assemble --plan bundle.plan --output kernels.hipfb first.part second.part"},
	},
	flags: func() action { return new(assembleFlags) },
}

// assembleFlags are the flags of offload assemble.
type assembleFlags struct {
	opt engine.AssembleOptions
}

func (f *assembleFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Plan, "plan", "", "the output of compress-plan, a `file`")
	flags.StringVar(&f.opt.Output, "output", "", "the bundle, a `file`; - is standard output")
	f.opt.Version = 3
	flags.choice("format-version", "`version` of the compressed bundle, 2 or 3 (default 3)", []string{"2", "3"}, func(s string) {
		f.opt.Version = int(s[0] - '0')
	})
}

func (f *assembleFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := required("plan", f.opt.Plan, "output", f.opt.Output); err != nil {
		return err
	}
	if len(operands) == 0 {
		return usageError("the parts are missing: expected at least one PART")
	}
	f.opt.Parts = operands
	return sizeAdvice(call.Session.Assemble(ctx, f.opt))
}
