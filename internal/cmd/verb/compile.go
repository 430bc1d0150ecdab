package verb

import (
	"errors"
	"slices"

	"github.com/rules-offload/rules_offload/internal/cmd/compilation"
	"github.com/rules-offload/rules_offload/internal/link"
)

var compileVerb = verb{
	name:    "compile",
	operand: " -- CLANG [ARG...]",
	summary: "Runs clang for an action of Bazel.",
	details: "Clang gets the standard streams, the environment and signals. The exit code is that of clang.\n\n" +
		"With --unused, it lists the headers that clang does not read, for Bazel's unused_inputs_list. Only headers of the --headers file are listed. The list is empty if clang may read files without naming them in a dependency file: with modules, precompiled headers, plugins, overlays of the file system, and .incbin or .include in inline assembly.\n\n" +
		"With --isolate, it does what offload isolate does with --suffix and --reference, with the object that clang wrote.",
	examples: []example{
		{"Compile a source, and list which of the headers it did not read", "offload compile --headers headers.txt --unused unused.txt -- clang++ -c -o a.o a.cc"},
	},
	flags: func(flags *flagSet) runner {
		var opt compilation.Options
		var isolate link.IsolateOptions
		flags.StringVar(&opt.Headers, "headers", "", "a `file` with paths of headers, one per line")
		flags.StringVar(&opt.Stdin, "stdin", "", "the `file` that clang reads from standard input")
		flags.BoolVar(&opt.DeviceHeaders, "device-headers", false, "have clang find its headers for OpenMP devices first")
		flags.BoolVar(&opt.DeviceFunctions, "device-functions", false, "have clang include the functions of OpenMP devices; implies --device-headers")
		flags.StringVar(&opt.Source, "source", "", "the source to write, a `file`: what clang prints with -E -frewrite-includes, for compilations on all machines and for all targets")
		flags.IntVar(&opt.EmptyLines, "empty-lines", 0, "the `number` of empty lines at the start of the --source")
		flags.StringVar(&opt.Done, "done", "", "an empty `file` to write if clang succeeds")
		flags.StringVar(&opt.Record, "record", "", "the optimization record that clang writes, a `file`, which gets the remarks of -Rpass-analysis=kernel-resource-usage")
		flags.StringVar(&opt.Unused, "unused", "", "the list to write, a `file`: headers that clang did not read, one per line")
		flags.StringVar(&isolate.Output, "isolate", "", "the host object that clang writes, a `file`, whose offload entries become private")
		flags.StringVar(&isolate.Suffix, "suffix", "", "with --isolate, `text` for the section name of its entries, llvm_offload_entries_TEXT")
		flags.StringVar(&isolate.Reference, "reference", "", "with --isolate, a `symbol` that an object with entries refers to")
		return func(call *invocation) error {
			if call.Worker {
				return errors.New("compile: a worker cannot run a compiler; start offload for each compilation")
			}
			if opt.Headers != "" || opt.Unused != "" {
				if err := required("headers", opt.Headers, "unused", opt.Unused); err != nil {
					return err
				}
			}
			if opt.EmptyLines < 0 {
				return usageError("--empty-lines: found a negative number, expected 0 or more")
			}
			if isolate != (link.IsolateOptions{}) {
				if err := required("isolate", isolate.Output, "suffix", isolate.Suffix); err != nil {
					return err
				}
			}
			if len(call.operands) == 0 {
				return usageError("no compiler: add -- and clang's command line")
			}
			opt.Command = call.operands
			if err := compilation.Run(opt); err != nil || isolate.Output == "" {
				return err
			}
			return link.Isolate(call.ctx, call.Session, isolate)
		}
	},
}

// RunsProgram reports whether arguments run a compiler or another program. In these, @file
// is for that program.
func RunsProgram(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{compileVerb.name, launchVerb.name, onGPUVerb.name}, args[0])
}
