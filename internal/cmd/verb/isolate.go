package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/register"
)

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
		return func(ctx context.Context, call *command.Call, _ []string) error {
			err := link.Isolate(ctx, call.Session, opt)
			if errors.Is(err, register.ErrRegistered) {
				return fmt.Errorf("%w; make the registration object with --relocatable", err)
			}
			return err
		}
	},
}
