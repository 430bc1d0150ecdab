package verb

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// Version is the release of the program. A release sets it.
var Version = "unreleased"

// versionLine returns the output of --version.
func versionLine() string {
	return fmt.Sprintf("offload %s (%s, %s/%s)", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

const (
	// overview is the description of the program in help.
	overview = "Creates, inspects and unpacks GPU offload bundles, offload binaries and the objects that contain them."

	// parameterFiles describes arguments that every verb accepts.
	parameterFiles = "An argument @FILE is replaced by the lines of FILE, an argument each."

	// exitCodes are the exit codes of every verb, a line each.
	exitCodes = "0  the verb succeeded\n" +
		"1  the verb or a requested check failed; one line on standard error names the file and the problem\n" +
		"2  the command line is invalid"

	helpWidth = 80
)

// programHelp prints the help of the program.
func programHelp(call *command.Call) {
	w := helpWriter{w: call.Stdout, color: call.Color}
	w.line("usage: offload VERB [flags]")
	w.line("")
	w.paragraph("", overview)
	w.heading("Verbs")
	width := 0
	for _, v := range verbs() {
		width = max(width, len(v.name))
	}
	for _, v := range verbs() {
		if !v.hidden {
			w.paragraph(fmt.Sprintf("  %-*s  ", width, v.name), v.summary)
		}
	}
	w.heading("Exit codes")
	w.table(exitCodes)
	w.line("")
	w.paragraph("", "offload help VERB, or offload VERB --help, describes the flags of a verb. offload --version prints the version. "+parameterFiles)
}

// verbHelp prints the help of a verb.
func verbHelp(call *command.Call, v *verb) {
	w := helpWriter{w: call.Stdout, color: call.Color}
	w.line("usage: " + v.usage())
	w.line("")
	w.paragraph("", v.summary)
	for paragraph := range strings.SplitSeq(v.details, "\n") {
		w.paragraph("", paragraph)
	}
	w.heading("Examples")
	for i, e := range v.examples {
		if i > 0 {
			w.line("")
		}
		w.paragraph("  # ", e.purpose)
		w.line("  " + e.command)
	}
	_, flags := v.prepare()
	if len(flags.names()) > 0 {
		w.heading("Flags")
		flags.VisitAll(w.flag)
	}
	w.heading("Exit codes")
	w.table(exitCodes)
}

// usage is the usage line of a verb.
func (v *verb) usage() string { return "offload " + v.name + " [flags]" + v.operand }

// helpWriter writes text of helpWidth columns. Errors are left to the writer.
type helpWriter struct {
	w     io.Writer
	color bool
}

func (w helpWriter) line(s string) { fmt.Fprintln(w.w, s) }

// heading writes an empty line and a heading, in bold if the output has colours.
func (w helpWriter) heading(s string) {
	if w.color {
		s = "\x1b[1m" + s + "\x1b[0m"
	}
	fmt.Fprintf(w.w, "\n%s:\n", s)
}

// table writes lines with a short key and a text.
func (w helpWriter) table(lines string) {
	for line := range strings.SplitSeq(lines, "\n") {
		key, text, _ := strings.Cut(line, "  ")
		w.paragraph("  "+key+"  ", text)
	}
}

// paragraph writes a text after lead, wrapped and indented by the width of lead. A
// lead that is a comment sign begins every line.
func (w helpWriter) paragraph(lead, text string) {
	next := strings.Repeat(" ", len(lead))
	if strings.HasSuffix(lead, "# ") {
		next = lead
	}
	line, empty := lead, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			w.line(line)
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	w.line(strings.TrimRight(line, " "))
}

// flag writes a flag: its name and value, and its description below them.
func (w helpWriter) flag(f *flag.Flag) {
	value, usage := describe(f)
	w.line("  --" + strings.TrimSpace(f.Name+" "+value))
	w.paragraph("        ", usage)
}

// describe returns the name of a flag's value, "" if it has none, and its usage with
// the default.
func describe(f *flag.Flag) (value, usage string) {
	value, usage = flag.UnquoteUsage(f)
	usage = strings.TrimPrefix(usage, value+": ")
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
		usage += " (default " + f.DefValue + ")"
	}
	return value, usage
}
