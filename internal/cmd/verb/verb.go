// Package verb implements the command line of the program under its own name. Each verb is one
// file: a struct of flags, the help text with examples, and a method that converts the flags to
// the options of an engine operation. Help, completion scripts and man pages are generated from
// the same descriptions.
package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/compilation"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// A verb is a command of the program.
type verb struct {
	name    string
	operand string // the arguments after the flags, for the usage line: " FILE..."
	summary string // one sentence
	// details follow the summary in help: paragraphs of one line each, separated by empty
	// lines. May be empty.
	details string
	// examples are shown in help, in this order. At least one.
	examples []example
	// hidden verbs are for Bazel's actions: help of the program does not list them.
	hidden bool
	// flags returns the flags of one call, at their defaults.
	flags func() action
}

// An example is a command line with its purpose.
type example struct {
	purpose string // without a full stop
	command string // begins with "offload "
}

// An action is a verb with the flags of one call.
type action interface {
	// define defines the flags. The name of a flag's value is between backquotes in
	// its usage.
	define(flags *flagSet)
	// run runs the verb with its flags and the operands.
	run(ctx context.Context, call *command.Call, operands []string) error
}

// verbs returns all verbs, in the order of help.
func verbs() []*verb {
	return []*verb{
		&bundleVerb, &unbundleVerb, &listVerb, &inspectVerb, &reportVerb, &diffVerb, &extractVerb,
		&archiveVerb, &unbundleArchiveVerb, &checkVerb,
		&packVerb, &embedVerb, &ccDataVerb, &registerVerb, &linkVerb, &linkDeviceVerb, &isolateVerb, &requireVerb, &deviceDepsVerb, &pruneVerb,
		&kpackListVerb, &kpackExtractVerb, &kpackVerifyVerb, &kpackSplitVerb, &kpackMergeVerb,
		&compressPartVerb, &compressPlanVerb, &assembleVerb, &compileVerb,
		&completionVerb, &manVerb,
	}
}

// find returns the verb of that name, or nil.
func find(name string) *verb {
	for _, v := range verbs() {
		if v.name == name {
			return v
		}
	}
	return nil
}

// Exit codes of the program.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in the command line, not in a file.
type usageError string

func (e usageError) Error() string { return string(e) }

// Run runs a command line and returns its exit code: 0 for success, 1 for a failure, 2 for an
// invalid command line. It writes one line on call.Stderr for a failure.
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
	switch first := call.Args[0]; first {
	case "-h", "-help", "--help", "help":
		return help(call, call.Args[1:])
	case "-version", "--version":
		fmt.Fprintln(call.Stdout, versionLine())
		return exitOK
	case completeCommand:
		return complete(call)
	default:
		if isGroup(first) {
			second := ""
			if len(call.Args) > 1 {
				second = call.Args[1]
			}
			if call.Args = joinVerb(call.Args); find(call.Args[0]) == nil {
				return groupCall(call, first, second)
			}
			first = call.Args[0]
		}
		if v := find(first); v != nil {
			return v.exit(call, v.run(ctx, call))
		}
		return unknownVerb(call, first)
	}
}

// help answers offload help [VERB].
func help(call *command.Call, args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		programHelp(call)
		return exitOK
	}
	if isGroup(args[0]) && len(args) == 1 {
		return groupCall(call, args[0], "help")
	}
	args = joinVerb(args)
	v := find(args[0])
	if v == nil {
		return unknownVerb(call, args[0])
	}
	verbHelp(call, v)
	return exitOK
}

// unknownVerb reports a verb that does not exist.
func unknownVerb(call *command.Call, name string) int {
	names := verbNames()
	hint := "expected one of " + strings.Join(names, ", ")
	if near := nearest.Name(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	if strings.HasPrefix(name, "-") {
		hint = "flags follow the verb, one of " + strings.Join(names, ", ")
	}
	fmt.Fprintf(call.Stderr, "offload: %s\n", withTry(fmt.Sprintf("unknown verb %q; %s", name, hint), "offload help"))
	return exitUsage
}

// verbNames returns the names of the verbs that help lists.
func verbNames() []string {
	var names []string
	for _, v := range verbs() {
		if !v.hidden {
			names = append(names, v.name)
		}
	}
	return append(names, "help")
}

// run parses the flags of a call and runs the verb.
func (v *verb) run(ctx context.Context, call *command.Call) error {
	action, flags := v.prepare()
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
	return action.run(call.Session.Context(ctx), call, operands)
}

// prepare returns the flags of a call, defined and at their defaults.
func (v *verb) prepare() (action, *flagSet) {
	flags := &flagSet{}
	flags.Init(v.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // messages are printed once, by exit
	flags.Usage = func() {}
	action := v.flags()
	action.define(flags)
	memoryFlag(flags)
	return action, flags
}

// exit reports the error of a verb and returns the exit code.
func (v *verb) exit(call *command.Call, err error) int {
	var mistake usageError
	var compiler *compilation.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &compiler):
		return compiler.Code
	case errors.As(err, &mistake):
		fmt.Fprintf(call.Stderr, "offload %s: %s\n", v.name, withTry(printable.Error(err), "offload "+v.name+" --help"))
		return exitUsage
	}
	fmt.Fprintf(call.Stderr, "offload: %s\n", printable.Error(err))
	return exitFailure
}

// withTry adds the command for help to the message of a mistake.
func withTry(message, try string) string {
	if !strings.HasSuffix(message, "?") {
		message += "."
	}
	return message + " Try: " + try
}

// noOperands rejects operands, for verbs without operands.
func noOperands(operands []string) error {
	if len(operands) > 0 {
		return usageError(fmt.Sprintf("unexpected argument %q", operands[0]))
	}
	return nil
}

// oneFile returns the operand of verbs with one file.
func oneFile(operands []string) (string, error) {
	if len(operands) != 1 {
		return "", usageError(fmt.Sprintf("expected one file, found %d", len(operands)))
	}
	return operands[0], nil
}
