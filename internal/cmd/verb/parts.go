package verb

import (
	"github.com/rules-offload/rules_offload/engine"
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
	flags: func(flags *flagSet) runner {
		var opt engine.PartOptions
		flags.required(&opt.Output, "output", "the part, a `file`")
		flags.operands(&opt.Inputs, "the inputs are missing: expected the images of the part, in the order of the bundle")
		flags.align(&opt.Align)
		flags.BoolVar(&opt.Pad, "pad", false, "fill the part up to a multiple of --align, because other images follow in the bundle")
		levelFlag(flags, &opt.Level)
		return operation(&opt, (*engine.Session).CompressPart)
	},
}

var compressPlanVerb = verb{
	name:    "compress-plan",
	summary: "Writes the header, frames and hash of a bundle whose parts are compressed separately, for assemble.",
	examples: []example{
		{"Plan a bundle of three images", "offload compress-plan --align 4096 --output bundle.plan --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co --entry gfx1100=gfx1100.co"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.CompressPlanOptions
		var entries entries
		flags.check(noOperands)
		entries.define(flags, "an entry of the bundle; without FILE it is empty.")
		flags.required(&opt.Output, "output", "the plan, a `file`")
		flags.align(&opt.Align)
		levelFlag(flags, &opt.Level)
		framesFlag(flags, &opt.Frames)
		return func(call *invocation) (err error) {
			if opt.Entries, err = entries.bundle(); err != nil {
				return err
			}
			return call.Session.CompressPlan(call.ctx, opt)
		}
	},
}

var assembleVerb = verb{
	name:    "assemble",
	operand: " PART...",
	summary: "Assembles a compressed bundle from its plan and its parts.",
	examples: []example{
		{"Assemble a bundle from a plan and two parts", "offload assemble --plan bundle.plan --output kernels.hipfb first.part second.part"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.AssembleOptions
		flags.required(&opt.Plan, "plan", "the output of compress-plan, a `file`")
		flags.required(&opt.Output, "output", "the bundle, a `file`; - is standard output")
		flags.operands(&opt.Parts, "the parts are missing: expected at least one PART")
		versionFlag(flags, &opt.Version, "the compressed bundle")
		return func(call *invocation) error {
			return sizeAdvice(call.Session.Assemble(call.ctx, opt))
		}
	},
}
