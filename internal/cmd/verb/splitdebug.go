package verb

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

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
		return func(ctx context.Context, call *command.Call, _ []string) error {
			return call.Session.SplitDebug(ctx, opt)
		}
	},
}
