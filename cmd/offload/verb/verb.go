// Package verb is the command line of the program under its own name: one file
// for each verb, which turns flags into the options of an engine operation.
package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
)

// A verb is one thing the program does.
type verb struct {
	name    string
	operand string // what stands behind the flags, for the usage line
	summary string // one line
	// prepare defines the verb's flags and returns what runs once they are
	// parsed, with the arguments behind them.
	prepare func(flags *flag.FlagSet) func(ctx context.Context, call *command.Call, operands []string) error
}

func verbs() []verb {
	return []verb{bundleVerb, unbundleVerb, listVerb, archiveVerb, unbundleArchiveVerb, checkVerb, compressPartVerb, compressPlanVerb, assembleVerb, packVerb, extractVerb, inspectVerb, embedVerb, registerVerb, linkVerb, isolateVerb}
}

// usageError is a mistake in the command line, not in a file.
type usageError string

func (e usageError) Error() string { return string(e) }

// Run runs a command line and returns its exit code: 0 when it did what was
// asked, 1 when it failed, 2 when the command line itself is wrong. Failures
// are one line on call.Stderr.
func Run(ctx context.Context, call *command.Call) int {
	if len(call.Args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, call.Args[0]) {
		usage(call.Stdout)
		return 0
	}
	index := slices.IndexFunc(verbs(), func(v verb) bool { return v.name == call.Args[0] })
	if index < 0 {
		fmt.Fprintf(call.Stderr, "offload: %q is no verb; it is one of %s. Try: offload help\n", call.Args[0], strings.Join(names(), ", "))
		return 2
	}
	err := run(ctx, call, verbs()[index])
	var mistake usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &mistake):
		fmt.Fprintf(call.Stderr, "offload %s: %v. Try: offload %s --help\n", call.Args[0], err, call.Args[0])
		return 2
	}
	fmt.Fprintf(call.Stderr, "offload: %v\n", err)
	return 1
}

func run(ctx context.Context, call *command.Call, v verb) error {
	flags := flag.NewFlagSet(v.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // messages are printed once, by Run
	flags.Usage = func() {}
	act := v.prepare(flags)
	if err := flags.Parse(call.Args[1:]); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(call.Stdout, "usage: offload %s [flags]%s\n%s\n\n", v.name, v.operand, v.summary)
		printFlags(call.Stdout, flags)
		return err
	} else if err != nil {
		return usageError(err.Error())
	}
	return act(ctx, call, flags.Args())
}

// printFlags prints what flags there are, as they are written in the docs: the
// flag package would print them with one dash.
func printFlags(w io.Writer, flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		usage = strings.TrimPrefix(usage, value+": ")
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  --%s\n        %s\n", strings.TrimSpace(f.Name+" "+value), usage)
	})
}

func names() []string {
	var all []string
	for _, v := range verbs() {
		all = append(all, v.name)
	}
	return all
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: offload VERB [flags]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(w, "  %-18s %s\n", v.name, v.summary)
	}
	fmt.Fprint(w, "\noffload VERB --help tells a verb's flags. An argument @FILE stands for the lines of FILE.\n")
}

// noOperands is for verbs that take flags alone.
func noOperands(operands []string) error {
	if len(operands) > 0 {
		return usageError(fmt.Sprintf("unexpected argument %q", operands[0]))
	}
	return nil
}
