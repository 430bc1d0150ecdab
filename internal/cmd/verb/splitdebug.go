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
	flags: func() action { return new(splitDebugFlags) },
}

// splitDebugFlags are the flags of offload split-debug.
type splitDebugFlags struct {
	opt engine.SplitDebugOptions
}

func (f *splitDebugFlags) define(flags *flagSet) {
	flags.input(&f.opt.Input, "the code object, a `file`")
	flags.StringVar(&f.opt.Output, "output", "", "the code object without debug information, a `file`")
	flags.StringVar(&f.opt.DebugInfo, "debug-info", "", "the `file` to write with the debug information")
}

func (f *splitDebugFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := oneInput(&f.opt.Input, operands); err != nil {
		return err
	}
	if err := required("output", f.opt.Output, "debug-info", f.opt.DebugInfo); err != nil {
		return err
	}
	return call.Session.SplitDebug(ctx, f.opt)
}
