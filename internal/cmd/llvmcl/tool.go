// Package llvmcl parses command lines as LLVM's command line library does: its spellings,
// response files, help and error messages.
package llvmcl

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Tool describes the command line of a tool: its help and its options.
type Tool struct {
	Overview string // what the tool does; help shows it first
	Category string // heading of the options in help
	Version  string // what --version prints, without newline
	// Order lists the names of the options, including those of every tool, in the order of
	// LLVM's hash table. If several options are equally similar to an unknown argument, the
	// first one is suggested.
	Order []string
	// Syntax is the syntax of the LLVM release to follow.
	Syntax Syntax

	options     []*option
	byName      map[string]*option
	positionals *Opt[[]string]
	needed      bool // there must be a positional argument
	operands    string
}

// Syntax has the differences between releases of LLVM's command line library. The zero value is LLVM 22.
type Syntax struct {
	// HelpAlias adds the option -h to every tool, as an alias of --help. In earlier releases,
	// tools define it.
	HelpAlias bool
	// NoGroups disables groups of one-letter options: -ab is not -a -b.
	NoGroups bool
	// StrictBools accepts true, false, 1 and 0 as values of a boolean option, and no other spelling.
	StrictBools bool
	// EmptyQuotes makes a pair of quotes in a response file an empty argument.
	EmptyQuotes bool
}

// Opt is the value of an option and how often it was given.
type Opt[T any] struct {
	Value T
	Count int

	*option
}

// option describes an option of any type for parsing and help.
type option struct {
	name     string
	help     string // may have several lines
	operand  string // the value in help; "" if help shows no value
	takes    takes
	commas   bool // a comma separates values
	choices  []Choice
	required bool
	shown    shown
	generic  bool // one of those that every tool has

	seen func() int
	// set sets the value. It returns an error message, or "".
	set func(value string) string
}

// takes reports whether an option has a value.
type takes int

const (
	valueOptional takes = iota
	valueRequired
	valueDisallowed
)

// shown is where help lists an option.
type shown int

const (
	inHelp       shown = iota
	inHiddenHelp       // --help-hidden alone
	nowhere            // nor suggested
)

// Hide excludes the option from help and suggestions.
func (o *option) Hide() { o.shown = nowhere }

// Require makes the option mandatory.
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

// Bool adds an option that is true if it is present, or has the value after an equals sign.
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

// String adds an option whose last value applies.
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

// List adds an option that may be repeated and takes comma-separated values. Count is the
// number of values.
func (t *Tool) List(name, operand, help string) *Opt[[]string] {
	opt := t.Strings(name, operand, help)
	opt.commas = true
	return opt
}

// Choice is one of the possible values of an option.
type Choice struct {
	Value, Help string
	// Hidden excludes the value from help.
	Hidden bool
}

// Choice adds an option with a fixed set of values. The last one applies.
func (t *Tool) Choice(name, help string, choices ...Choice) *Opt[string] {
	return newOpt(t, &option{name: name, operand: "value", help: help, takes: valueRequired, choices: choices}, func(old, value string) (string, string) {
		if slices.ContainsFunc(choices, func(c Choice) bool { return c.Value == value }) {
			return value, ""
		}
		return old, "Cannot find option named '" + value + "'!"
	})
}

// Positionals makes the tool accept arguments without a dash, which are errors otherwise.
func (t *Tool) Positionals(operands string) *Opt[[]string] {
	t.positionals, t.operands = &Opt[[]string]{}, operands
	return t.positionals
}

// RequirePositional makes a positional argument mandatory.
func (t *Tool) RequirePositional() { t.needed = true }

// Uint adds an option with an unsigned 32-bit number.
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

// Int adds an option with a 32-bit number.
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

// parseNumber parses a number whose prefix selects its base: 0x, 0b, 0o, and also 0 for octal.
func parseNumber(s string) (uint64, bool) {
	if strings.ContainsAny(s, "O_") { // which Go accepts
		return 0, false
	}
	n, err := strconv.ParseUint(s, 0, 64)
	return n, err == nil
}
