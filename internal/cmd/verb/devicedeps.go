package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/link"
)

var deviceDepsVerb = verb{
	name:    "check-device-deps",
	operand: " BITCODE...",
	summary: "Fails if a device link uses library code with variables, which the program would then have twice.",
	examples: []example{
		{"Check what a link uses of a library", "offload check-device-deps --target //app --library //math=math.bc app.bc"},
	},
	flags: func() action { return new(deviceDepsFlags) },
}

// deviceDepsFlags are the flags of offload check-device-deps.
type deviceDepsFlags struct {
	opt link.DeviceDepsOptions
}

func (f *deviceDepsFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Target, "target", "the link", "`label` of the linked target, for messages")
	flags.StringVar(&f.opt.Output, "output", "", "an empty `file`, written if the check passes")
	flags.repeated("library", "`LABEL=FILE`: a bitcode file of a library, linked if it defines a missing symbol. May be repeated.", func(s string) error {
		label, file, ok := strings.Cut(s, "=")
		if !ok || label == "" || file == "" {
			return fmt.Errorf("found %q, expected LABEL=FILE", s)
		}
		f.opt.Library = append(f.opt.Library, link.LibraryObject{File: file, Label: label})
		return nil
	})
}

func (f *deviceDepsFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) == 0 {
		return usageError("the input is missing: expected bitcode files")
	}
	f.opt.Objects = operands
	err := link.CheckDeviceDeps(ctx, call.Session, f.opt)
	var copied *link.CopiedVariableError
	switch {
	case errors.As(err, &copied):
		return fmt.Errorf("%s: device_deps: %w; link both once: device_link = False in each hip_library, and a hip_device_link for the program, or move the variable to another source", copied.Target, err)
	case errors.Is(err, link.ErrNotBitcode):
		return fmt.Errorf("%w; compile the device code with rdc = True", err)
	}
	return err
}
