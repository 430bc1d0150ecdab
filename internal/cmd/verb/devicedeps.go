package verb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/internal/link"
)

var deviceDepsVerb = verb{
	name:    "check-device-deps",
	operand: " BITCODE...",
	summary: "Fails if a device link uses library code with variables, which the program would then have twice.",
	examples: []example{
		{"Check what a link uses of a library", "offload check-device-deps --target //app --library //math=math.bc app.bc"},
	},
	flags: func(flags *flagSet) runner {
		var opt link.DeviceDepsOptions
		flags.operands(&opt.Objects, "the input is missing: expected bitcode files")
		flags.StringVar(&opt.Target, "target", "the link", "`label` of the linked target, for messages")
		flags.StringVar(&opt.Output, "output", "", "an empty `file`, written if the check passes")
		flags.repeated("library", "`LABEL=FILE`: a bitcode file of a library, linked if it defines a missing symbol. May be repeated.", func(s string) error {
			label, file, ok := strings.Cut(s, "=")
			if !ok || label == "" || file == "" {
				return fmt.Errorf("found %q, expected LABEL=FILE", s)
			}
			opt.Library = append(opt.Library, link.LibraryObject{File: file, Label: label})
			return nil
		})
		return func(call *invocation) error {
			err := link.CheckDeviceDeps(call.ctx, call.Session, opt)
			var copied *link.CopiedVariableError
			switch {
			case errors.As(err, &copied):
				return fmt.Errorf("%s: device_deps: %w; link both once: device_link = False in each hip_library, and a hip_device_link for the program, or move the variable to another source", copied.Target, err)
			case errors.Is(err, link.ErrNotBitcode):
				return fmt.Errorf("%w; compile the device code with rdc = True", err)
			}
			return err
		}
	},
}
