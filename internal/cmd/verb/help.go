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

// Version is the release of offload. A release sets it.
var Version = "unreleased"

// versionLine returns the output of --version.
func versionLine() string {
	return fmt.Sprintf("offload %s (%s, %s/%s)", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

const (
	// overview is the description of offload in help.
	overview = "Creates, inspects and unpacks GPU offload bundles, offload binaries and the objects that contain them."

	// parameterFiles describes arguments that every verb accepts.
	parameterFiles = "An argument @FILE is replaced by the lines of FILE, an argument each."

	// inputsEverywhere describes how verbs get their inputs.
	inputsEverywhere = "Flags can precede or follow operands. Where a verb reads FILE, --input FILE is the same. Sizes have units, such as 4096, 100MB or 1GiB."

	helpWidth = 80
)

// A row of help is a term and its description.
type row struct{ term, text string }

// exitCodes are the exit codes of every verb.
var exitCodes = []row{
	{"0", "the verb succeeded"},
	{"1", "the verb or a requested check failed; a line on standard error for each error names the file and the problem"},
	{"2", "the command line is invalid; the line on standard error names the argument and what to type instead"},
}

// environment are the variables that offload and its drop-ins read.
var environment = []row{
	{"OFFLOAD_MAX_MEMORY", "the default of --max-memory, also for drop-ins and workers"},
	{"NO_COLOR", "if set, help has no bold headings"},
	{"TERM", "if dumb or not set, help has no bold headings, and no progress is shown"},
	{"TMPDIR", "the directory for temporary files, /tmp by default"},
	{"PATH", "where link finds the compiler of --clang, and compile and link-device find theirs"},
	{"OFFLOAD_LLVM_VERSION", "the release of LLVM that drop-ins behave like: 22, 23 or 24"},
	{"OFFLOAD_CACHE", "the directory in which clang-linker-wrapper keeps the results of device links; none by default"},
	{"OFFLOAD_CACHE_SIZE", "the maximum size of that directory, such as 20G"},
	{"OFFLOAD_BUNDLER_COMPRESSION_LEVEL", "the compression level of clang-offload-bundler, as in LLVM's"},
	{"COMPRESSED_BUNDLE_FORMAT_VERSION", "the version of bundles that clang-offload-bundler compresses, as in LLVM's"},
}

// verbVariables is the number of variables at the start of environment that verbs read.
const verbVariables = 5

// dropIns describes the drop-ins for the tools of LLVM and ROCm.
const dropIns = "Called by the name of one of these tools, offload has its command line: clang-offload-bundler, clang-offload-packager, clang-linker-wrapper, llvm-offload-binary, llvm-offload-wrapper, also with a release such as clang-offload-bundler-22, and roc-obj, roc-obj-ls and roc-obj-extract of ROCm. Make a symbolic link with that name."

// maxMemory is the name of the flag of all verbs, which help describes once.
const maxMemory = "max-memory"

// programHelp prints the help of offload.
func programHelp(call *command.Call) {
	w := helpWriter{w: call.Stdout, color: call.Color}
	w.line("usage: offload VERB [flags] [FILE...]")
	w.line("       offload help VERB")
	w.line("       offload version")
	w.line("")
	w.paragraph("", overview)
	for _, s := range sections() {
		w.heading(s.title)
		var rows []row
		for _, v := range s.verbs {
			rows = append(rows, row{v.name, v.summary})
		}
		w.rows(rows)
	}
	w.heading("Flags of all verbs")
	_, flags := listVerb.prepare()
	w.flag(flags.Lookup(maxMemory))
	w.line("  --help")
	w.paragraph("        ", "describe the verb and its flags")
	w.line("")
	w.paragraph("", inputsEverywhere+" "+parameterFiles)
	w.heading("Environment variables")
	for _, e := range environment {
		w.line("  " + e.term)
		w.paragraph("        ", e.text)
	}
	w.heading("Drop-ins")
	w.paragraph("  ", dropIns)
	w.heading("Exit codes")
	w.rows(exitCodes)
}

// verbHelp prints the help of a verb.
func verbHelp(call *command.Call, v *verb) {
	w := helpWriter{w: call.Stdout, color: call.Color}
	w.line("usage: " + v.usage())
	w.line("")
	w.paragraph("", v.summary)
	for paragraph := range strings.SplitSeq(v.details, "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
			w.line("")
			w.paragraph("", paragraph)
		}
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
	if len(flags.names()) > 1 {
		w.heading("Flags")
		flags.VisitAll(func(f *flag.Flag) {
			if f.Name != maxMemory {
				w.flag(f)
			}
		})
	}
	w.line("")
	w.paragraph("", "offload help lists the flags of all verbs, environment variables and exit codes.")
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

// rows writes rows in two columns.
func (w helpWriter) rows(rows []row) {
	width := 0
	for _, r := range rows {
		width = max(width, len(r.term))
	}
	for _, r := range rows {
		w.paragraph(fmt.Sprintf("  %-*s  ", width, r.term), r.text)
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

// describe returns the name of a flag's value in capitals, "" if it has none, and its usage with
// the default.
func describe(f *flag.Flag) (value, usage string) {
	value, usage = flag.UnquoteUsage(f)
	usage = strings.TrimPrefix(usage, value+": ")
	value = strings.ToUpper(value)
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
		usage += " (default " + f.DefValue + ")"
	}
	return value, usage
}
