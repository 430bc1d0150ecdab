// Package verb implements the command line of offload. Each verb is a variable with its help text and
// examples, and a function that defines its flags, which set the options of an engine operation. Help,
// completion scripts and man pages are generated from the same descriptions.
package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/compilation"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// A verb is a command of offload.
type verb struct {
	name    string
	operand string // the arguments after the flags, for the usage line: " FILE...". May be empty.
	summary string // one sentence
	// details follow the summary in help: paragraphs of one line each, separated by empty
	// lines. May be empty.
	details string
	// examples are shown in help, in this order. At least one.
	examples []example
	// onlyOutputs is set if the verb starts no processes, and writes no files but outputs of its Session.
	onlyOutputs bool
	// command is set if the operands are a command: flags end at the first of them.
	command bool
	// flags defines the flags of one call, at their defaults, and returns what runs it. The name
	// of a flag's value is between backquotes in its usage.
	flags func(*flagSet) runner
}

// An example is a command line with its purpose.
type example struct {
	purpose string // without a full stop
	command string // begins with "offload "
}

// A runner runs a verb with the values of its flags.
type runner func(call *invocation) error

// An invocation is a call of a verb.
type invocation struct {
	*command.Call
	ctx      context.Context
	verb     string
	operands []string
}

// warn prints a warning on standard error.
func (c *invocation) warn(format string, args ...any) {
	fmt.Fprintf(c.Stderr, "offload %s: warning: %s\n", c.verb, fmt.Sprintf(format, args...))
}

// print prints a line on standard output.
func (c *invocation) print(format string, args ...any) {
	fmt.Fprintln(c.Stdout, printable.Text(fmt.Sprintf(format, args...)))
}

// operation returns a runner that does no more than one operation of the Session, with options that the
// flags set.
func operation[O any](opt *O, do func(*engine.Session, context.Context, O) error) runner {
	return func(call *invocation) error { return do(call.Session, call.ctx, *opt) }
}

// A section is a group of verbs in help.
type section struct {
	title string
	verbs []*verb
}

// sections returns all verbs, in the order of help.
func sections() []section {
	return []section{
		{"Bundles", []*verb{&bundleVerb, &unbundleVerb, &listVerb, &checkVerb, &archiveVerb, &unbundleArchiveVerb}},
		{"Device code in any file", []*verb{&inspectVerb, &reportVerb, &diffVerb, &extractVerb}},
		{"Installed libraries", []*verb{&pruneVerb, &kpackListVerb, &kpackExtractVerb, &kpackVerifyVerb, &kpackSplitVerb, &kpackMergeVerb, &wheelSplitVerb, &wheelMergeVerb, &wheelPruneVerb}},
		{"Objects and links", []*verb{&packVerb, &embedVerb, &ccDataVerb, &registerVerb, &linkVerb, &isolateVerb, &requireVerb, &splitDebugVerb}},
		{"Compilations without Bazel", []*verb{&launchVerb, &cacheStatsVerb, &cacheClearVerb, &cacheTrimVerb, &cacheVerifyVerb}},
		{"Steps of Bazel rules", []*verb{&compressPartVerb, &compressPlanVerb, &assembleVerb, &compileVerb, &linkDeviceVerb, &deviceDepsVerb}},
		{"Tests", []*verb{&onGPUVerb}},
		{"Installation", []*verb{&completionVerb, manVerb()}},
	}
}

// verbs returns all verbs, in the order of help.
func verbs() []*verb {
	var all []*verb
	for _, s := range sections() {
		all = append(all, s.verbs...)
	}
	return all
}

// find returns the verb of that name, or nil.
func find(name string) *verb {
	for _, s := range sections() {
		for _, v := range s.verbs {
			if v.name == name {
				return v
			}
		}
	}
	return nil
}

// Exit codes of verbs.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in the command line, not in a file.
type usageError string

func (e usageError) Error() string { return string(e) }

// Run runs a command line and returns its exit code: 0 for success, 1 for a failure, 2 for an
// invalid command line. It writes one line on call.Stderr for each error.
func Run(ctx context.Context, call *command.Call) int {
	return command.Buffered(call, func(call *command.Call) int {
		return dispatch(ctx, call)
	}, func(stderr io.Writer, err error) int {
		fmt.Fprintf(stderr, "offload: standard output: %s\n", printable.Error(err))
		return exitFailure
	})
}

// dispatch runs the verb that the first argument names.
func dispatch(ctx context.Context, call *command.Call) int {
	if len(call.Args) == 0 {
		programHelp(call)
		return exitOK
	}
	switch call.Args[0] {
	case "-h", "-help", "--help", "help":
		return help(call, call.Args[1:])
	case "-version", "--version", "version":
		if len(call.Args) > 1 {
			return mistake(call, "offload", "unexpected argument "+call.Args[1], "offload --version")
		}
		fmt.Fprintln(call.Stdout, versionLine())
		return exitOK
	case completeCommand:
		return complete(call)
	}
	words := call.Args
	call.Args = joinVerb(words)
	switch v := find(call.Args[0]); {
	case v != nil:
		return v.exit(call, v.run(ctx, call))
	case isGroup(words[0]):
		return groupCall(call, words)
	}
	return unknownVerb(call, words)
}

// help answers offload help [VERB].
func help(call *command.Call, args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "help" {
		programHelp(call)
		return exitOK
	}
	words := joinVerb(args)
	v := find(words[0])
	switch {
	case v == nil && isGroup(args[0]):
		return groupCall(call, args)
	case v == nil:
		return unknownVerb(call, words)
	case len(words) > 1:
		return mistake(call, "offload help", "unexpected argument "+words[1], "offload help "+v.name)
	}
	verbHelp(call, v)
	return exitOK
}

// unknownVerb reports that the first argument is not a verb.
func unknownVerb(call *command.Call, args []string) int {
	name := args[0]
	if strings.HasPrefix(name, "-") {
		return misplacedFlag(call, args)
	}
	message := fmt.Sprintf("unknown verb %q", name)
	if run, ok := strings.CutPrefix(name, "kpack-"); ok && find("kpack "+run) != nil {
		return mistake(call, "offload", message+"; did you mean kpack "+run+"?", "offload help")
	}
	if advice := otherVerb(call, name); advice != "" {
		return mistake(call, "offload", message+"; "+advice, "offload help")
	}
	if near := nearest.Name(name, append(verbNames(), "version")); near != "" {
		message += "; did you mean " + near + "?"
	}
	return mistake(call, "offload", message, "offload help")
}

// otherVerb returns what to type instead of a verb of another program, the name of a drop-in, or a
// file; "" for anything else.
func otherVerb(call *command.Call, name string) string {
	switch strings.ToLower(name) {
	case "ls", "entries", "targets":
		return "did you mean list?"
	case "info", "show", "dump", "objdump", "readelf", "readobj", "kernels", "stat":
		return "did you mean inspect?"
	case "verify", "validate", "lint":
		return "did you mean check?"
	case "strip", "thin", "shrink":
		return "did you mean prune?"
	case "unpack", "unzip":
		return "did you mean unbundle or extract?"
	case "split", "merge":
		return strings.ToLower("did you mean kpack " + name + " or wheel " + name + "?")
	case "compare":
		return "did you mean diff?"
	}
	if strings.Contains(name, "-") && slices.Contains(strings.FieldsFunc(dropIns, func(r rune) bool { return r == ' ' || r == ',' }), name) {
		return "for the command line of " + name + ", make a symbolic link of that name to offload"
	}
	if input, err := call.Session.Files().Open(name); err == nil {
		input.Close()
		return "to list the device code of this file, run offload inspect " + name
	}
	return ""
}

// misplacedFlag reports a flag where a verb is expected.
func misplacedFlag(call *command.Call, args []string) int {
	flag, _, _ := strings.Cut(args[0], "=")
	for i, arg := range args {
		if find(arg) != nil {
			line := append(append([]string{"offload", arg}, args[:i]...), args[i+1:]...)
			return mistake(call, "offload", flag+": flags follow the verb: "+strings.Join(line, " "), "offload help")
		}
	}
	message := "unknown flag " + flag
	switch near := nearest.Name(strings.TrimLeft(flag, "-"), []string{"help", "version"}); {
	case near != "":
		message += "; did you mean --" + near + "?"
	case strings.EqualFold(flag, "-v"):
		message += "; did you mean --version?"
	default:
		message += "; expected a verb before the flags"
	}
	return mistake(call, "offload", message, "offload help")
}

// mistake reports an invalid command line, with the command for help.
func mistake(call *command.Call, where, message, try string) int {
	if !strings.HasSuffix(message, "?") {
		message += "."
	}
	fmt.Fprintf(call.Stderr, "%s: %s Try: %s\n", where, printable.Name(message), printable.Name(try))
	return exitUsage
}

// verbNames returns the names of the verbs, with help.
func verbNames() []string {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	return append(names, "help")
}

// run parses the flags of a call and runs the verb.
func (v *verb) run(ctx context.Context, call *command.Call) error {
	if !v.onlyOutputs && call.Protect != nil {
		call.Protect()
	}
	run, flags := v.prepare()
	operands, err := parse(flags, call.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		verbHelp(call, v)
		return nil
	case err != nil:
		return err
	case flags.memory > 0 && call.Worker:
		return usageError("--max-memory: the requests of a worker share its memory; pass the flag to the worker instead")
	case flags.memory > 0:
		limited := *call
		if limited.Session, err = call.WithMemory(flags.memory); err != nil {
			return err
		}
		call = &limited
	}
	for _, check := range flags.checks {
		if err := check(operands); err != nil {
			return err
		}
	}
	flags.stderr = call.Stderr
	call.Session.Files().RejectPointers = true
	return run(&invocation{call, call.Session.Context(ctx), v.name, operands})
}

// prepare returns what runs a call, and its flags, defined and at their defaults.
func (v *verb) prepare() (runner, *flagSet) {
	flags := &flagSet{command: v.command}
	flags.Init(v.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // messages are printed once, by exit
	flags.Usage = func() {}
	memoryFlag(flags)
	return v.flags(flags), flags
}

// exit reports the error of a verb and returns the exit code.
func (v *verb) exit(call *command.Call, err error) int {
	var wrong usageError
	var compiler *compilation.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &compiler):
		return compiler.Code
	case errors.As(err, &wrong):
		return mistake(call, "offload "+v.name, err.Error(), "offload "+v.name+" --help")
	}
	for _, line := range messages(call, err) {
		fmt.Fprintf(call.Stderr, "offload: %s\n", line)
	}
	return exitFailure
}

// noOperands rejects operands, for verbs without operands.
func noOperands(operands []string) error {
	if len(operands) > 0 {
		return usageError("unexpected argument " + operands[0])
	}
	return nil
}
