package verb

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
)

// parse parses arguments and returns the operands. Flags may be between operands; all arguments
// after -- are operands, and those after the first operand if it is a command. Its errors are flag.ErrHelp and usage errors. Flags are those of the flag
// package of the standard library, because cobra, pflag and kong add a millisecond to the start of
// each process, which is as long as most calls take. That package's own parser neither names a flag
// as help does, nor reports one that is given twice.
func parse(flags *flagSet, args []string) (operands []string, err error) {
	for all := args; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(operands, args...), nil
		}
		if arg == "" {
			return nil, usageError(`an argument is empty: found "", expected a file`)
		}
		if len(arg) < 2 || arg[0] != '-' {
			operands = append(operands, arg)
			if flags.command {
				return append(operands, args...), nil
			}
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := flags.Lookup(name)
		switch {
		case f == nil && (name == "help" || name == "h"):
			return nil, flag.ErrHelp
		case f == nil:
			return nil, usageError(unknownFlag(flags, arg, name, all))
		case !hasValue && takesValue(f):
			if value, err = flags.next(f, args); err != nil {
				return nil, usageError("--" + name + ": " + err.Error())
			}
			args = args[1:]
		}
		if err := flags.set(f, value, hasValue); err != nil {
			return nil, usageError("--" + name + ": " + err.Error())
		}
	}
	return operands, nil
}

// next returns the value of a flag that is the next argument.
func (f *flagSet) next(of *flag.Flag, args []string) (string, error) {
	what, _ := describe(of)
	if len(args) == 0 {
		return "", errors.New("a value is missing, expected " + what)
	}
	name, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	if strings.HasPrefix(args[0], "-") && f.Lookup(name) != nil {
		return "", fmt.Errorf("a value is missing, found the flag --%s; to pass that as the value, write --%s=%s", name, of.Name, args[0])
	}
	return args[0], nil
}

// set sets a flag of the call.
func (f *flagSet) set(of *flag.Flag, value string, hasValue bool) error {
	before, twice := f.given[of.Name]
	f.given = with(f.given, of.Name, value)
	switch {
	case twice && !slices.Contains(f.repeatable, of.Name) && takesValue(of) && before != value:
		return fmt.Errorf("given twice: %s, %s", before, value)
	case twice && !slices.Contains(f.repeatable, of.Name):
		return errors.New("given twice")
	case takesValue(of) && value == "":
		what, _ := describe(of)
		return errors.New("found an empty value, expected " + what)
	case !takesValue(of) && !hasValue:
		value = "true"
	}
	err := of.Value.Set(value)
	switch {
	case err == nil:
		return nil
	case !takesValue(of) && of.Name == "compress":
		return fmt.Errorf("found %q, but --compress takes no value; it always uses zstd", value)
	case !takesValue(of):
		return fmt.Errorf("found %q, but the flag takes no value", value)
	case errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("found %q, expected a number", value)
	}
	return err
}

// otherFlags returns the flags that do what a flag of another program, of another verb or of an
// earlier release does: the first that a verb has is meant.
func otherFlags(name string) []string {
	switch name {
	case "compression-level":
		return []string{"level"}
	case "target", "targets", "arch", "archs", "offload-arch", "gpu", "gpus":
		return []string{"entry", "keep", "covers", "archs", "image"}
	case "in", "file", "inputs", "i":
		return []string{"input", "image"}
	case "o", "out", "output", "outputs", "in-place", "inplace":
		return []string{"output", "output-dir", "html"}
	case "output-dir", "outdir", "dir", "d", "directory":
		return []string{"output-dir", "output"}
	case "bundle-align":
		return []string{"align"}
	case "name":
		return []string{"symbol", "kernel-name"}
	}
	return nil
}

// unknownFlag returns the message for a flag that does not exist.
func unknownFlag(flags *flagSet, arg, name string, all []string) string {
	typed, _, _ := strings.Cut(arg, "=")
	if len(typed) > 2 && !strings.HasPrefix(typed, "--") {
		typed = "-" + typed
	}
	message := "unknown flag " + typed
	near := ""
	for _, other := range otherFlags(name) {
		if near == "" && flags.Lookup(other) != nil {
			near = other
		}
	}
	if near == "" {
		near = nearest.Name(name, append(flags.names(), "help"))
	}
	isOutput := slices.Contains([]string{"o", "out", "output", "outputs"}, name)
	switch {
	case flags.Lookup("entry") != nil && (near == "entry" || isOutput && flags.Lookup("output") == nil):
		return message + "; write --entry " + wanted(all)
	case near != "":
		return message + "; did you mean --" + near + "?"
	case isOutput && flags.Lookup("json") != nil:
		return message + "; the verb prints to standard output: add > FILE"
	case slices.Contains([]string{"input", "inputs", "in", "file", "image", "images", "binary"}, name):
		return message + "; files are arguments without a flag"
	}
	return message
}

// wanted returns the value of --entry that arguments with the flags of clang-offload-bundler mean.
func wanted(args []string) string {
	target, file := "TARGET", "FILE"
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "target", "targets", "arch", "archs", "offload-arch":
			target, _, _ = strings.Cut(value, ",")
		case "o", "out", "output", "outputs":
			file, _, _ = strings.Cut(value, ",")
		}
	}
	return target + "=" + file
}

// names returns the names of all flags.
func (f *flagSet) names() []string {
	var names []string
	f.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// takesValue reports whether a flag needs a value. All flags without one, and no others, have the default
// "false". To assert that the value has a method IsBoolFlag instead, the runtime would copy its table of
// interfaces, in every small call.
func takesValue(f *flag.Flag) bool { return f.DefValue != "false" }
