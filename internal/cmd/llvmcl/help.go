package llvmcl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

const genericCategory = "Generic Options"

// addGeneric adds the options that every tool has. Those that print end the call.
func (p *parser) addGeneric() {
	options := []*option{
		{name: "help", help: "Display available options (--help-hidden for more)", takes: valueDisallowed},
		{name: "help-hidden", help: "Display all available options", takes: valueDisallowed, shown: inHiddenHelp},
		{name: "help-list", help: "Display list of available options (--help-list-hidden for more)", takes: valueDisallowed, shown: inHiddenHelp},
		{name: "help-list-hidden", help: "Display list of all available options", takes: valueDisallowed, shown: inHiddenHelp},
		{name: "version", help: "Display the version of this program", takes: valueDisallowed},
	}
	if p.Syntax.HelpAlias {
		options = append(options, &option{name: "h", help: "Alias for --help", takes: valueDisallowed, shown: inHiddenHelp})
	}
	for _, o := range options {
		o.generic = true
		o.seen = func() int { return 0 }
		p.add(o)
	}
	for _, o := range []*option{
		p.Bool("print-all-options", "Print all option values after command line parsing").option,
		p.Bool("print-options", "Print non-default options after command line parsing").option,
	} {
		// LLVM's tools accept these options, but most print nothing.
		o.generic, o.shown = true, inHiddenHelp
	}
}

// print implements the options that print.
func (p *parser) print(name string) {
	switch name {
	case "version":
		fmt.Fprintln(p.stdout, p.Version)
	case "help", "h":
		p.byName["help-list"].shown = inHelp
		p.printHelp(false, true)
	case "help-hidden":
		p.byName["help-list"].shown = inHelp
		p.printHelp(true, true)
	case "help-list":
		p.printHelp(false, false)
	case "help-list-hidden":
		p.printHelp(true, false)
	}
}

// printHelp prints help, with the options in their categories or in one list.
func (p *parser) printHelp(hidden, categories bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "OVERVIEW: %s\nUSAGE: %s [options]%s\n\nOPTIONS:\n", p.Overview, p.program, p.operands)
	options := slices.Clone(p.options)
	options = slices.DeleteFunc(options, func(o *option) bool {
		return o.shown == nowhere || o.shown == inHiddenHelp && !hidden
	})
	slices.SortFunc(options, func(a, b *option) int { return strings.Compare(a.name, b.name) })
	width := 0
	for _, o := range options {
		width = max(width, len(o.spelling()))
		for _, c := range o.shownChoices() {
			width = max(width, len("    =")+len(c.Value))
		}
	}
	if !categories {
		for _, o := range options {
			o.printHelp(&b, width)
		}
	} else {
		names := []string{genericCategory, p.Category}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "\n%s:\n\n", name)
			for _, o := range options {
				if o.generic == (name == genericCategory) {
					o.printHelp(&b, width)
				}
			}
		}
	}
	fmt.Fprint(p.stdout, b.String())
}

// PrintHelp prints help like the option -h of many tools. Unlike --help, it lists the options
// without categories.
func (t *Tool) PrintHelp(call *command.Call) { t.parser(call).printHelp(false, false) }

// spelling is the option with its value, in the form of help.
func (o *option) spelling() string {
	s := "  " + dashed(o.name)
	if o.operand == "" {
		return s
	}
	if len(o.name) == 1 {
		return s + " <" + o.operand + ">"
	}
	return s + "=<" + o.operand + ">"
}

func (o *option) printHelp(b *strings.Builder, width int) {
	lead := fmt.Sprintf("%-*s - ", width, o.spelling())
	for line := range strings.Lines(o.help) {
		fmt.Fprintf(b, "%s%s\n", lead, strings.TrimSuffix(line, "\n"))
		lead = strings.Repeat(" ", width+3)
	}
	for _, c := range o.shownChoices() {
		fmt.Fprintf(b, "%-*s -   %s\n", width, "    ="+c.Value, c.Help)
	}
}

// shownChoices returns the values that help lists.
func (o *option) shownChoices() []Choice {
	return slices.DeleteFunc(slices.Clone(o.choices), func(c Choice) bool { return c.Hidden })
}
