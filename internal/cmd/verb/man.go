package verb

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
)

// manVerb returns the verb man. It is not a variable, because it refers to all verbs.
func manVerb() *verb {
	return &verb{
		name:     "man",
		operand:  " DIRECTORY",
		summary:  "Writes the man pages of offload and its verbs to an existing directory.",
		examples: []example{{"Install the man pages", "offload man /usr/local/share/man/man1"}},
		flags:    func(*flagSet) runner { return writeManPages },
	}
}

// writeManPages runs offload man.
func writeManPages(call *invocation) error {
	if len(call.operands) != 1 {
		return usageError(fmt.Sprintf("expected one directory, found %d", len(call.operands)))
	}
	var outputs []engine.Output
	pages := manPages()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		outputs = append(outputs, engine.Output{Name: strings.TrimSuffix(call.operands[0], "/") + "/" + name, Write: func(w io.Writer) error {
			_, err := io.WriteString(w, pages[name])
			return err
		}})
	}
	return call.Session.WriteFiles(call.ctx, outputs...)
}

// manPages returns the man pages by the names of their files.
func manPages() map[string]string {
	pages := map[string]string{}
	var program manPage
	program.head("offload", overview)
	program.section("SYNOPSIS", "offload VERB [flags]\noffload help [VERB]\noffload version")
	program.section("DESCRIPTION", overview+"\n"+inputsEverywhere+"\n"+parameterFiles+"\n"+dropIns)
	program.title("VERBS")
	var also []string
	for _, s := range sections() {
		program.WriteString(".SS " + roff(s.title) + "\n")
		for _, v := range s.verbs {
			program.item(v.pageName()+"(1)", v.summary)
			also = append(also, v.pageName()+"(1)")
			pages[v.pageName()+".1"] = v.manPage(s.verbs)
		}
	}
	program.items("ENVIRONMENT", environment)
	program.items("EXIT STATUS", exitCodes)
	program.section("SEE ALSO", strings.Join(also, ", "))
	pages["offload.1"] = program.String()
	return pages
}

// pageName returns the name of the man page of a verb.
func (v *verb) pageName() string { return "offload-" + strings.ReplaceAll(v.name, " ", "-") }

// manPage returns the man page of a verb; related are the verbs of the same section of help.
func (v *verb) manPage(related []*verb) string {
	var p manPage
	p.head(v.pageName(), v.summary)
	p.section("SYNOPSIS", v.usage())
	p.section("DESCRIPTION", strings.TrimSpace(v.summary+"\n"+v.details))
	_, flags := v.prepare()
	p.title("OPTIONS")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := describe(f)
		p.item(strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
	p.items("ENVIRONMENT", environment[:verbVariables])
	p.items("EXIT STATUS", exitCodes)
	p.title("EXAMPLES")
	for _, e := range v.examples {
		p.WriteString(".PP\n" + roff(e.purpose) + ":\n.PP\n.nf\n.RS\n" + roff(e.command) + "\n.RE\n.fi\n")
	}
	also := "offload(1)"
	for _, other := range related {
		if other != v {
			also += ", " + other.pageName() + "(1)"
		}
	}
	p.section("SEE ALSO", also)
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

// items writes a section with rows.
func (p *manPage) items(title string, rows []row) {
	p.title(title)
	for _, r := range rows {
		p.item(r.term, r.text)
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
