package llvmcl

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

func (t *Tool) parser(call *command.Call) *parser {
	return &parser{Tool: t, argv0: call.Name, program: filepath.Base(call.Name), stdout: call.Stdout, stderr: call.Stderr}
}

// readFile returns a function that reads the response files of a call.
func readFile(call *command.Call) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		in, err := call.Session.Files().Open(name)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return slices.Clone(in.All().Mapped(guard.Inside)), nil
	}
}

// Exit reports whether parsing ended a call. The zero value means that the tool continues.
type Exit struct {
	Done bool
	Code int
}

// parser parses one command line.
type parser struct {
	*Tool
	argv0          string
	program        string // argv0 without its directories
	args           []string
	stdout, stderr io.Writer
	failed         bool
}

// Parse parses a command line. It writes help to call.Stdout, and a line for every mistake to
// call.Stderr.
func (t *Tool) Parse(call *command.Call) Exit {
	p := t.parser(call)
	p.addGeneric()
	var err error
	if p.args, err = expand(call.Args, readFile(call), t.Syntax.EmptyQuotes); err != nil {
		// LLVM's tools report this and continue without arguments.
		fmt.Fprintln(p.stderr, err)
		return Exit{}
	}
	dashDash := false
	for i := 0; i < len(p.args); i++ {
		arg := p.args[i]
		switch {
		case dashDash || arg == "-" || !strings.HasPrefix(arg, "-"):
			if t.positionals == nil {
				p.unknown(arg, "")
				continue
			}
			t.positionals.Value = append(t.positionals.Value, arg)
			t.positionals.Count++
		case arg == "--":
			dashDash = true
		default:
			o, value, has, rest := p.lookup(strings.TrimPrefix(arg[1:], "-"))
			if o == nil {
				p.unknown(arg, p.nearest(rest))
				continue
			}
			if exit := p.provide(o, value, has, &i); exit.Done {
				return exit
			}
		}
	}
	if t.needed && t.positionals.Count == 0 {
		p.failed = true
		fmt.Fprintf(p.stderr, "%s: Not enough positional command line arguments specified!\nMust specify at least 1 positional argument: See: %s --help\n", p.program, p.argv0)
	}
	for _, o := range t.options {
		if o.required && o.seen() == 0 {
			p.mistake(o, "must be specified at least once!")
		}
	}
	return Exit{Done: p.failed, Code: 1}
}

// unknown reports an unknown argument.
func (p *parser) unknown(arg, nearest string) {
	p.failed = true
	fmt.Fprintf(p.stderr, "%s: Unknown command line argument '%s'.  Try: '%s --help'\n", p.program, arg, p.argv0)
	if nearest != "" {
		fmt.Fprintf(p.stderr, "%s: Did you mean '%s'?\n", p.program, dashed(nearest))
	}
}

// mistake reports a mistake with an option.
func (p *parser) mistake(o *option, message string) {
	p.failed = true
	fmt.Fprintf(p.stderr, "%s: for the %s option: %s\n", p.program, dashed(o.name), message)
}

// dashed returns an option with its dashes, as in messages and help.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// lookup returns the option for an argument without its dashes, and its value if it has one. If
// the option does not exist, it returns the unrecognised part.
func (p *parser) lookup(arg string) (o *option, value string, has bool, rest string) {
	name, value, has := strings.Cut(arg, "=")
	if o := p.byName[name]; o != nil {
		return o, value, has, ""
	}
	return p.group(arg)
}

// group parses several options of one letter after one dash.
func (p *parser) group(arg string) (o *option, value string, has bool, rest string) {
	if len(arg) == 1 || p.Syntax.NoGroups {
		return nil, "", false, arg
	}
	for {
		if arg != "" {
			o = p.byName[arg[:1]]
		}
		if arg == "" || o == nil {
			return nil, "", false, arg
		}
		rest = arg[1:]
		switch {
		case rest == "":
			return o, "", false, ""
		case rest[0] == '=':
			return o, rest[1:], true, ""
		case o.takes == valueRequired:
			p.mistake(o, "may not occur within a group!")
			return nil, "", false, arg[:1]
		}
		p.accept(o, isTrue)
		arg = rest
	}
}

// provide gives an option its value, which may be the next argument.
func (p *parser) provide(o *option, value string, has bool, i *int) Exit {
	switch {
	case o.takes == valueRequired && !has:
		if *i+1 >= len(p.args) {
			p.mistake(o, "requires a value!")
			return Exit{}
		}
		*i++
		value = p.args[*i]
	case o.takes == valueDisallowed && has:
		p.mistake(o, fmt.Sprintf("does not allow a value! '%s' specified.", value))
		return Exit{}
	}
	if o.takes == valueDisallowed {
		p.print(o.name)
		return Exit{Done: true}
	}
	if o.takes == valueOptional && !has {
		value = isTrue
	}
	p.accept(o, value)
	return Exit{}
}

// accept sets the value of an option.
func (p *parser) accept(o *option, value string) {
	values := []string{value}
	if o.commas {
		values = strings.Split(value, ",")
	}
	for _, v := range values {
		if wrong := o.set(v); wrong != "" {
			p.mistake(o, wrong)
			return
		}
	}
}
