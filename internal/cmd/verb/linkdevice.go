package verb

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/compilation"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/link"
)

var linkDeviceVerb = verb{
	name:    "link-device",
	operand: " -- CLANG ARGUMENT...",
	summary: "Runs clang to link device code, and names the sources that refer to undefined symbols.",
	details: "An argument of clang that begins with @@ is passed with one @, as a response file of clang.",
	examples: []example{
		{"Link the code of a source", "offload link-device --object a.o --source a.hip -- clang --target=amdgcn-amd-amdhsa -mcpu=gfx942 -o a.co a.o"},
	},
	flags: func() action { return new(linkDeviceFlags) },
}

// linkDeviceFlags are the flags of offload link-device.
type linkDeviceFlags struct {
	opt    link.LinkDeviceOptions
	record string
}

func (f *linkDeviceFlags) define(flags *flagSet) {
	flags.StringVar(&f.opt.Advice, "advice", "", "`text` about what to do, in the message about undefined symbols")
	flags.StringVar(&f.record, "record", "", "the optimization record that the link writes, a `file`, which gets the remarks of -pass-remarks-analysis=kernel-resource-usage")
	flags.StringVar(&f.opt.WithoutRuntime, "without-runtime", "", "the `GPU` of an OpenMP link without libraries: fail before the link if an object calls LLVM's device runtime")
	flags.repeated("object", "`FILE`: a linked object or bitcode file, followed by its --source. May be repeated.", func(s string) error {
		f.opt.Objects = append(f.opt.Objects, link.LinkedObject{File: s, Source: s})
		return nil
	})
	flags.repeated("source", "`TEXT`: what the object was compiled from, for messages (default: the name of the object). May be repeated.", func(s string) error {
		if len(f.opt.Objects) == 0 {
			return errors.New("expected --object before it")
		}
		f.opt.Objects[len(f.opt.Objects)-1].Source = s
		return nil
	})
}

func (f *linkDeviceFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) == 0 {
		return usageError("no command: expected clang and its arguments after --")
	}
	if call.Worker {
		return errors.New("link-device: cannot run as a worker request: found a persistent worker, expected a process with its own directory and environment, to run the compiler in; remove supports-workers from the action")
	}
	for _, operand := range operands {
		if strings.HasPrefix(operand, "@@") {
			operand = operand[1:]
		}
		f.opt.Command = append(f.opt.Command, operand)
	}
	f.opt.Env = os.Environ()
	messages, err := link.LinkDevice(ctx, call.Session, f.opt)
	if f.record != "" {
		var moved error
		if messages, moved = compilation.MoveResources(messages, f.record); err == nil {
			err = moved
		}
	}
	io.WriteString(call.Stderr, printable.Text(messages))
	return err
}
