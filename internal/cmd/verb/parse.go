package verb

import (
	"errors"
	"flag"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
)

// parse parses arguments and returns the operands. Flags may be between operands; all arguments
// after -- are operands. Its errors are flag.ErrHelp and usage errors. It uses the flag package
// of the standard library because cobra, pflag and kong add a millisecond to the start of each
// process, which is as long as most calls take.
func parse(flags *flagSet, args []string) (operands []string, err error) {
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if name, unknown := strings.CutPrefix(message(err), "flag provided but not defined: -"); unknown {
			return nil, unknownFlag(flags, name)
		} else if err != nil {
			return nil, usageError(err.Error())
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return operands, nil
		}
		if parsed := len(args) - len(rest); parsed > 0 && args[parsed-1] == "--" {
			return append(operands, rest...), nil
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}

// message returns the message of an error, "" for none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// unknownFlag reports a flag that does not exist.
func unknownFlag(flags *flagSet, name string) error {
	names := append(flags.names(), "help")
	message := "flag provided but not defined: -" + name
	if near := nearest.Name(name, names); near != "" {
		message += "; did you mean --" + near + "?"
	}
	return usageError(message)
}

// names returns the names of all flags.
func (f *flagSet) names() []string {
	var names []string
	f.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// takesValue reports whether a flag needs a value.
func takesValue(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
