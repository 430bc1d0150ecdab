package verb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var manVerb = verb{
	name:     "man",
	operand:  " DIRECTORY",
	summary:  "Writes the man pages of the program and its verbs to an existing directory.",
	examples: []example{{"Install the man pages", "offload man /usr/local/share/man/man1"}},
	hidden:   true,
	flags:    func() action { return new(manFlags) },
}

// manFlags are the flags of offload man: none.
type manFlags struct{}

func (*manFlags) define(*flagSet) {}

func (*manFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) != 1 {
		return usageError(fmt.Sprintf("expected one directory, found %d", len(operands)))
	}
	var outputs []engine.Output
	for name, page := range manPages() {
		outputs = append(outputs, engine.Output{Name: path.Join(operands[0], name), Write: func(w io.Writer) error {
			_, err := io.WriteString(w, page)
			return err
		}})
	}
	return call.Session.WriteFiles(ctx, outputs...)
}

// manPages returns the man pages by the names of their files.
func manPages() map[string]string {
	pages := map[string]string{}
	var program manPage
	program.head("offload", overview)
	program.section("SYNOPSIS", "offload VERB [flags]\noffload help [VERB]\noffload --version")
	program.section("DESCRIPTION", overview+"\n"+parameterFiles)
	program.title("VERBS")
	var also []string
	for _, v := range verbs() {
		if v.hidden {
			continue
		}
		program.item("offload-"+strings.ReplaceAll(v.name, " ", "-")+"(1)", v.summary)
		also = append(also, "offload-"+strings.ReplaceAll(v.name, " ", "-")+"(1)")
		pages["offload-"+strings.ReplaceAll(v.name, " ", "-")+".1"] = v.manPage()
	}
	program.exitCodes()
	program.section("SEE ALSO", strings.Join(also, ", "))
	pages["offload.1"] = program.String()
	return pages
}

// manPage returns the man page of a verb.
func (v *verb) manPage() string {
	var p manPage
	p.head("offload-"+strings.ReplaceAll(v.name, " ", "-"), v.summary)
	p.section("SYNOPSIS", v.usage())
	p.section("DESCRIPTION", strings.TrimSpace(v.summary+"\n"+v.details))
	if _, flags := v.prepare(); len(flags.names()) > 0 {
		p.title("OPTIONS")
		flags.VisitAll(func(f *flag.Flag) {
			value, usage := describe(f)
			p.item(strings.TrimSpace("--"+f.Name+" "+value), usage)
		})
	}
	p.exitCodes()
	p.title("EXAMPLES")
	for _, e := range v.examples {
		p.WriteString(".PP\n" + roff(e.purpose) + ":\n.PP\n.nf\n.RS\n" + roff(e.command) + "\n.RE\n.fi\n")
	}
	p.section("SEE ALSO", "offload(1)")
	return p.String()
}

// manPage is the source of a man page, for man(7).
type manPage struct{ strings.Builder }

func (p *manPage) head(name, summary string) {
	fmt.Fprintf(p, ".TH %q 1 \"\" %q \"rules_offload\"\n.nh\n.ad l\n", strings.ToUpper(name), "offload "+Version)
	p.section("NAME", name+" - "+strings.TrimSuffix(summary, "."))
}

func (p *manPage) title(s string) { p.WriteString(".SH " + s + "\n") }

// section writes a section with a paragraph for each line of text.
func (p *manPage) section(title, text string) {
	p.title(title)
	first := true
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		if !first {
			p.WriteString(".PP\n")
		}
		p.WriteString(roff(line) + "\n")
		first = false
	}
}

// item writes a term and its description.
func (p *manPage) item(term, text string) {
	p.WriteString(".TP\n\\fB" + roff(term) + "\\fR\n" + roff(text) + "\n")
}

func (p *manPage) exitCodes() {
	p.title("EXIT STATUS")
	for line := range strings.SplitSeq(exitCodes, "\n") {
		code, meaning, _ := strings.Cut(line, "  ")
		p.item(code, meaning)
	}
}

// roff escapes a line of text for man(7).
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "\"", `\(dq`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
