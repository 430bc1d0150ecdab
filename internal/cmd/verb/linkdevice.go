package verb

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"

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
	flags: func(flags *flagSet) runner {
		var opt link.LinkDeviceOptions
		flags.operands(&opt.Command, "no command: expected clang and its arguments after --")
		flags.StringVar(&opt.Advice, "advice", "", "`text` about what to do, in the message about undefined symbols")
		record := flags.String("record", "", "the optimization record that the link writes, a `file`, which gets the remarks of -pass-remarks-analysis=kernel-resource-usage")
		flags.StringVar(&opt.WithoutRuntime, "without-runtime", "", "the `GPU` of an OpenMP link without libraries: fail before the link if an object calls LLVM's device runtime")
		flags.repeated("object", "`FILE`: a linked object or bitcode file, followed by its --source. May be repeated.", func(s string) error {
			opt.Objects = append(opt.Objects, link.LinkedObject{File: s, Source: s})
			return nil
		})
		flags.repeated("source", "`TEXT`: what the object was compiled from, for messages (default: the name of the object). May be repeated.", func(s string) error {
			if len(opt.Objects) == 0 {
				return errors.New("expected --object before it")
			}
			opt.Objects[len(opt.Objects)-1].Source = s
			return nil
		})
		return func(call *invocation) error {
			if call.Worker {
				return errors.New("link-device: cannot run as a worker request: found a persistent worker, expected a process with its own directory and environment, to run the compiler in; remove supports-workers from the action")
			}
			for i, arg := range opt.Command {
				if strings.HasPrefix(arg, "@@") {
					opt.Command[i] = arg[1:]
				}
			}
			opt.Env = os.Environ()
			messages, err := link.LinkDevice(call.ctx, call.Session, opt)
			if *record != "" {
				var moved error
				messages, moved = compilation.MoveResources(messages, *record)
				err = cmp.Or(err, moved)
			}
			io.WriteString(call.Stderr, printable.Text(messages))
			return err
		}
	},
}
