// Package llvmcl reads command lines as LLVM's tools do: the spellings that
// LLVM's command line library accepts, its response files, its help, and its
// words about mistakes.
package llvmcl

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Tool is the command line of one tool: what help says, and its options.
type Tool struct {
	Overview string // what the tool does; help shows it first
	Category string // heading of the options in help
	Version  string // what --version prints, without newline
	// Order has the names of the options, those of every tool included, in the
	// order in which LLVM's hash table has them: of options that are equally near
	// to an unknown argument, the first one is suggested.
	Order []string
	// Syntax is that of the release of LLVM to follow.
	Syntax Syntax

	options     []*option
	byName      map[string]*option
	positionals *Opt[[]string]
	needed      bool // there must be a positional argument
	operands    string
}

// Syntax has the differences between releases of LLVM's command line library. The zero value is LLVM 22.
type Syntax struct {
	// HelpAlias gives every tool the option -h, another name of --help. Before, tools define it.
	HelpAlias bool
	// NoGroups has options of one letter stand alone: -ab is not -a -b.
	NoGroups bool
	// StrictBools accepts true, false, 1 and 0 as values of a boolean option, and no other spelling.
	StrictBools bool
	// EmptyQuotes makes quotes with nothing between them an argument in response files.
	EmptyQuotes bool
}

// Opt is the value of an option and how often it was given.
type Opt[T any] struct {
	Value T
	Count int

	*option
}

// option is what parsing and help need to know of an option of any type.
type option struct {
	name     string
	help     string // may have several lines
	operand  string // what help shows for the value; "" if there is none to show
	takes    takes
	commas   bool // a comma separates values
	choices  []Choice
	required bool
	shown    shown
	generic  bool // one of those that every tool has

	seen func() int
	// set takes a value and returns what is wrong with it, or "".
	set func(value string) string
}

// takes says whether an option has a value.
type takes int

const (
	valueOptional takes = iota
	valueRequired
	valueDisallowed
)

// shown says where an option is mentioned.
type shown int

const (
	inHelp       shown = iota
	inHiddenHelp       // --help-hidden alone
	nowhere            // nor suggested
)

// Hide keeps the option out of help and suggestions.
func (o *option) Hide() { o.shown = nowhere }

// Require makes it a mistake not to give the option.
func (o *option) Require() { o.required = true }

func newOpt[T any](t *Tool, o *option, parse func(old T, value string) (T, string)) *Opt[T] {
	opt := &Opt[T]{option: o}
	o.seen = func() int { return opt.Count }
	o.set = func(value string) string {
		opt.Count++
		v, wrong := parse(opt.Value, value)
		if wrong == "" {
			opt.Value = v
		}
		return wrong
	}
	t.add(o)
	return opt
}

func (t *Tool) add(o *option) {
	if t.byName == nil {
		t.byName = make(map[string]*option)
	}
	t.options = append(t.options, o)
	t.byName[o.name] = o
}

// isTrue is the value of a boolean option without a value.
const isTrue = "true"

// Bool adds an option that is true when it is given, or has the value that
// follows an equals sign.
func (t *Tool) Bool(name, help string) *Opt[bool] {
	return newOpt(t, &option{name: name, help: help}, func(_ bool, value string) (bool, string) {
		switch value {
		case isTrue, "1":
			return true, ""
		case "false", "0":
			return false, ""
		case "", "TRUE", "True":
			if !t.Syntax.StrictBools {
				return true, ""
			}
		case "FALSE", "False":
			if !t.Syntax.StrictBools {
				return false, ""
			}
		}
		return false, "'" + value + "' is invalid value for boolean argument! Try 0 or 1"
	})
}

// String adds an option whose last value counts.
func (t *Tool) String(name, operand, help string) *Opt[string] {
	return newOpt(t, &option{name: name, operand: operand, help: help, takes: valueRequired}, func(_, value string) (string, string) {
		return value, ""
	})
}

// Strings adds an option that may be repeated.
func (t *Tool) Strings(name, operand, help string) *Opt[[]string] {
	return newOpt(t, &option{name: name, operand: operand, help: help, takes: valueRequired}, func(old []string, value string) ([]string, string) {
		return append(old, value), ""
	})
}

// List adds an option that may be repeated and whose values may have commas
// between them. Count counts values.
func (t *Tool) List(name, operand, help string) *Opt[[]string] {
	opt := t.Strings(name, operand, help)
	opt.commas = true
	return opt
}

// Choice is a value of an option that takes no others.
type Choice struct{ Value, Help string }

// Choice adds an option whose value is one of several. The last one counts.
func (t *Tool) Choice(name, help string, choices ...Choice) *Opt[string] {
	return newOpt(t, &option{name: name, operand: "value", help: help, takes: valueRequired, choices: choices}, func(old, value string) (string, string) {
		if slices.ContainsFunc(choices, func(c Choice) bool { return c.Value == value }) {
			return value, ""
		}
		return old, "Cannot find option named '" + value + "'!"
	})
}

// Positionals makes the tool take arguments without a dash. Without it they are
// mistakes.
func (t *Tool) Positionals(operands string) *Opt[[]string] {
	t.positionals, t.operands = &Opt[[]string]{}, operands
	return t.positionals
}

// RequirePositional makes it a mistake not to give a positional argument.
func (t *Tool) RequirePositional() { t.needed = true }

// Uint adds an option with a number of 32 bits that is not negative.
func (t *Tool) Uint(name, operand, help string, value uint32) *Opt[uint32] {
	opt := newOpt(t, &option{name: name, operand: operand, help: help, takes: valueRequired}, func(_ uint32, value string) (uint32, string) {
		n, ok := parseNumber(value)
		if !ok || n > math.MaxUint32 {
			return 0, "'" + value + "' value invalid for uint argument!"
		}
		return uint32(n), ""
	})
	opt.Value = value
	return opt
}

// Int adds an option with a number of 32 bits.
func (t *Tool) Int(name, operand, help string, value int32) *Opt[int32] {
	opt := newOpt(t, &option{name: name, operand: operand, help: help, takes: valueRequired}, func(_ int32, value string) (int32, string) {
		digits, negative := strings.CutPrefix(value, "-")
		n, ok := parseNumber(digits)
		switch {
		case ok && negative && n <= -math.MinInt32:
			return int32(-int64(n)), ""
		case ok && !negative && n <= math.MaxInt32:
			return int32(n), ""
		}
		return 0, "'" + value + "' value invalid for integer argument!"
	})
	opt.Value = value
	return opt
}

// parseNumber reads a number whose prefix tells its base: 0x, 0b, 0o, and 0 for
// octal as well.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case len(s) > 1 && strings.EqualFold(s[:2], "0x"):
		s, base = s[2:], 16
	case len(s) > 1 && strings.EqualFold(s[:2], "0b"):
		s, base = s[2:], 2
	case strings.HasPrefix(s, "0o"):
		s, base = s[2:], 8
	case len(s) > 1 && s[0] == '0' && '0' <= s[1] && s[1] <= '9':
		s, base = s[1:], 8
	}
	if strings.ContainsAny(s, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
