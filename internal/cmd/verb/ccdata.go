package verb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var ccDataVerb = verb{
	name:    "cc-data",
	operand: " [FILE]",
	summary: "Embeds a file with device code in an object as a C array, and writes a header for it.",
	details: "The object defines NAME, an array of unsigned char, and NAME_size, its size in bytes, of type size_t.\n\n" +
		"FILE has device code that a runtime can load from memory, for example with hipModuleLoadData: a bundle, compressed or not, a code object, a cubin, a CUDA fat binary, PTX or SPIR-V.",
	examples: []example{
		{"Make the object and the header of a fat binary", "offload cc-data --symbol kernels --triple x86_64-unknown-linux-gnu --output kernels.o --header kernels.h kernels.hipfb"},
	},
	flags: func() action { return new(ccDataFlags) },
}

// ccDataFlags are the flags of offload cc-data.
type ccDataFlags struct {
	opt engine.DataOptions
}

func (f *ccDataFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Symbol, "symbol", "", "the `name` of the C array")
	flags.StringVar(&f.opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu or x86_64-pc-windows-msvc")
	flags.Func("align", "the alignment of the data in `bytes`, a power of two (default 16)", func(s string) (err error) {
		if f.opt.Align, err = strconv.ParseUint(s, 10, 32); err != nil || f.opt.Align == 0 {
			return fmt.Errorf("found %q, expected a power of two such as 4096", s)
		}
		return nil
	})
	flags.StringVar(&f.opt.Output, "output", "", "the object, a `file`; - is standard output")
	flags.StringVar(&f.opt.Header, "header", "", "the header, a `file`")
}

func (f *ccDataFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := required("symbol", f.opt.Symbol); err != nil {
		return err
	}
	switch {
	case f.opt.Output == "" && f.opt.Header == "":
		return usageError("--output or --header is missing")
	case f.opt.Output == "" && len(operands) > 0:
		return usageError("--output is missing")
	case f.opt.Output == "":
		return call.Session.Data(ctx, f.opt)
	}
	if err := required("triple", f.opt.Triple); err != nil {
		return err
	}
	var err error
	if f.opt.Input, err = oneFile(operands); err != nil {
		return err
	}
	return call.Session.Data(ctx, f.opt)
}
