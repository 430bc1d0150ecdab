package verb

import (
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

var registerVerb = verb{
	name:    "register",
	operand: " IMAGE...",
	summary: "Writes an object that registers device images when a program starts.",
	examples: []example{
		{"Make the registration object of a HIP program", "offload register --kind hip --triple x86_64-unknown-linux-gnu --output kernels.o kernels.hipfb"},
	},
	flags: func(flags *flagSet) runner {
		opt := engine.RegisterOptions{Release: release.Default}
		kinds := alternatives(runtimes.Names())
		flags.choice("kind", "the `runtime`: "+kinds, runtimes.Names(), func(s string) {
			opt.Kind, _ = register.ParseKind(s)
		})
		flags.check(func(operands []string) error {
			switch opt.Images = operands; {
			case opt.Kind == 0:
				return usageError("--kind is missing: add --kind " + kinds)
			case len(operands) == 0:
				return usageError("the images are missing: expected at least one IMAGE")
			case runtimes.Of(opt.Kind).Form != runtimes.Images && len(operands) > 1:
				return usageError(opt.Kind.String() + " registers one fat binary or offload binary: first combine the images")
			}
			return nil
		})
		flags.required(&opt.Triple, "triple", "the host's target `triple`, such as x86_64-unknown-linux-gnu or x86_64-pc-windows-msvc")
		flags.number((*int)(&opt.Release), "llvm-version", "the LLVM `release` of the SYCL runtime: up to 22, it registers single images, from 23, offload binaries (default 22)", 15, 99)
		flags.required(&opt.Output, "output", "the object, a `file`; - is standard output")
		flags.StringVar(&opt.Entries, "entries", embedding.EntriesSection, "the `section` of the offload entries that belong to the images")
		flags.list(&opt.KeepEntries, "keep-entries", "a host object `file` whose offload entries lld must keep with --gc-sections. May be repeated.")
		flags.list(&opt.Define, "define", "a `symbol` that the object defines, for objects of offload require. May be repeated.")
		flags.StringVar(&opt.Symbol, "symbol", "", "define this `symbol` as HIP's fat binary, without registration: host code compiled without -fgpu-rdc registers it")
		flags.StringVar(&opt.ReferencedBy, "referenced-by", "", "the host object, a `file`, that may refer to the --symbol: if it does not, the output is an object without content")
		flags.BoolVar(&opt.Check, "check", false, "reject a fat binary of HIP or CUDA that has no device code")
		flags.BoolVar(&opt.Relocatable, "relocatable", false, "hide OpenMP images from later device links")
		return func(call *invocation) error {
			if opt.Kind == offloadbinary.HIP && !opt.Check { // --check makes it an error
				if format := formatOf(call, opt.Images[0]); format == check.Text || format == check.ELF {
					call.warn("%s%s, expected a bundle", printable.Name(opt.Images[0]), foundFormat(format))
				}
			}
			return call.Session.Register(call.ctx, opt)
		}
	},
}
