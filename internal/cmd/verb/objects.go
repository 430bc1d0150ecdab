package verb

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/registration/register"
)

var embedVerb = verb{
	name:    "embed",
	operand: " PACKAGE...",
	summary: "Embeds offload binaries in a host object, for a later device link.",
	examples: []example{
		{"Make a fat object from a host object and an offload binary", "offload embed --input host.o --output fat.o device.pack"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.EmbedOptions
		flags.required(&opt.Input, "input", "the host object, a `file`")
		flags.required(&opt.Output, "output", "the fat object, a `file`; - is standard output")
		flags.operands(&opt.Binaries, "the offload binaries are missing: expected at least one PACKAGE")
		return operation(&opt, (*engine.Session).Embed)
	},
}

var isolateVerb = verb{
	name:    "isolate",
	operand: " FILE",
	summary: "Completes a relocatable device link: makes the object's offload entries private to it.",
	examples: []example{
		{"Complete an object that ld -r linked with a registration object", "offload isolate --input linked.o --output isolated.o"},
	},
	flags: func(flags *flagSet) runner {
		var opt link.IsolateOptions
		flags.input(&opt.Input, "the object, a `file` that ld -r linked from host objects and a registration object; with --suffix, it can be a host object")
		flags.required(&opt.Output, "output", "the isolated object, a `file`; - is standard output")
		flags.StringVar(&opt.Suffix, "suffix", "", "`text` for the section name of its entries, llvm_offload_entries_TEXT (default: a hash of the input)")
		flags.StringVar(&opt.Reference, "reference", "", "a `symbol` that an object with entries refers to, so that linkers look for it in archives, such as one that register --define defines")
		return func(call *invocation) error {
			err := link.Isolate(call.ctx, call.Session, opt)
			if errors.Is(err, register.ErrRegistered) {
				return fmt.Errorf("%w; make the registration object with --relocatable", err)
			}
			return err
		}
	},
}

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
		return operation(&opt, (*engine.Session).Require)
	},
}

var splitDebugVerb = verb{
	name:    "split-debug",
	operand: " FILE",
	summary: "Moves the debug information of a code object to another file.",
	details: "The output has a section .gnu_debuglink with the name and the checksum of the other file. Debuggers and llvm-symbolizer find it in the same directory.",
	examples: []example{
		{"Split the debug information off, for llvm-symbolizer and debuggers", "offload split-debug --input whole.co --output kernels.co --debug-info kernels.debug"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.SplitDebugOptions
		flags.input(&opt.Input, "the code object, a `file`")
		flags.required(&opt.Output, "output", "the code object without debug information, a `file`")
		flags.required(&opt.DebugInfo, "debug-info", "the `file` to write with the debug information")
		return operation(&opt, (*engine.Session).SplitDebug)
	},
}
