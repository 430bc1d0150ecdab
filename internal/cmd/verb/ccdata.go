package verb

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/sizes"
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
	flags: func(flags *flagSet) runner {
		var opt engine.DataOptions
		flags.required(&opt.Symbol, "symbol", "the `name` of the C array")
		flags.StringVar(&opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu or x86_64-pc-windows-msvc")
		flags.inputFlag(&opt.Input, "the `file` with device code")
		flags.Func("align", "the alignment of the data, a `size` that is a power of two (default 16)", func(s string) error {
			n, err := sizes.Parse(s)
			if err != nil || bits.OnesCount64(uint64(n)) != 1 || n > math.MaxUint32 {
				return fmt.Errorf("found %q, expected a power of two such as 4096", s)
			}
			opt.Align = uint64(n)
			return nil
		})
		flags.StringVar(&opt.Output, "output", "", "the object, a `file`; - is standard output")
		flags.StringVar(&opt.Header, "header", "", "the header, a `file`")
		return func(call *invocation) error {
			switch {
			case opt.Output == "" && opt.Header == "":
				return usageError("--output or --header is missing: add --output FILE, --header FILE or both")
			case opt.Output == "" && (len(call.operands) > 0 || opt.Input != ""):
				return required("output", "")
			case opt.Output == "":
				return call.Session.Data(call.ctx, opt)
			}
			if err := required("triple", opt.Triple); err != nil {
				return err
			}
			if err := oneInput(&opt.Input, call.operands); err != nil {
				return err
			}
			return call.Session.Data(call.ctx, opt)
		}
	},
}
