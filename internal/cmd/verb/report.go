package verb

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/report"
)

var reportVerb = verb{
	name:    "report",
	operand: " FILE...",
	summary: "Writes a report of the device code in files as a web page, as Markdown or as JSON.",
	details: "\nThe page is one self-contained file, with a map of what takes the space and a table of all kernels to search and sort. With --fail-on, --tolerance and --max-growth, the exit code is 1 if a limit is exceeded; the reports are written in either case.",
	examples: []example{
		{"Show what a library consists of", "offload report --html report.html /opt/rocm/lib/librccl.so"},
		{"Show what a change did to it", "offload report --html report.html --base old/librccl.so new/librccl.so"},
		{"Summarize the outputs of a build, for a comment on a change", "offload report --markdown comment.md --json report.json kernels.hipfb program"},
	},
	flags: func(flags *flagSet) runner { return new(reportFlags).define(flags) },
}

// reportFlags are the flags of offload report.
type reportFlags struct {
	html, markdown, json string
	disassembler         string
	inputs, base         []string
	limits               limits
}

// define defines the flags and returns what runs the verb.
func (f *reportFlags) define(flags *flagSet) runner {
	flags.inputs(&f.inputs, "at least one FILE")
	flags.StringVar(&f.html, "html", "", "write a page to a `file`; - is standard output")
	flags.StringVar(&f.markdown, "markdown", "", "write a Markdown summary of less than 65,536 characters to a `file`")
	flags.StringVar(&f.json, "json", "", "write all values as JSON to a `file`")
	flags.list(&f.base, "base", "compare with an older `file`, and report what changed. May be repeated.")
	flags.StringVar(&f.disassembler, "disassembler", "", "find architectures with equal instructions, which a generic target can replace, by a `program`: an llvm-objdump that knows the processors")
	f.limits.define(flags)
	return f.run
}

func (f *reportFlags) run(call *invocation) (err error) {
	if f.html == "" && f.markdown == "" && f.json == "" {
		return usageError("the output is missing: expected --html, --markdown or --json")
	}
	if len(f.base) == 0 && f.limits.Any() {
		return usageError("--fail-on, --tolerance and --max-growth compare with an older file: --base is missing")
	}
	var r report.Report
	if err := f.limits.read(call); err != nil {
		return err
	}
	if r.Files, err = call.Session.InspectAll(call.ctx, f.inputs, engine.InspectOptions{Sources: true}); err != nil {
		return err
	}
	if err := withCode(call, r.Files); err != nil {
		return err
	}
	if f.disassembler != "" {
		if err := f.findRedundant(call, &r); err != nil {
			return err
		}
	}
	if len(f.base) > 0 {
		old, err := call.Session.InspectAll(call.ctx, f.base, engine.InspectOptions{})
		if err != nil {
			return err
		}
		r.Compare(old)
		f.limits.Check(r.Diff)
	}
	if err := writeGiven(call, engine.Output{Name: f.html, Write: r.WriteHTML}, engine.Output{Name: f.markdown, Write: r.WriteMarkdown}, engine.Output{Name: f.json, Write: r.WriteJSON}); err != nil {
		return err
	}
	return f.limits.verdict(r.Diff, strings.Join(f.inputs, ", "))
}

// writeGiven writes the outputs whose names are given, all of them or none.
func writeGiven(call *invocation, outputs ...engine.Output) error {
	outputs = slices.DeleteFunc(outputs, func(o engine.Output) bool { return o.Name == "" })
	return call.Session.WriteFiles(call.ctx, outputs...)
}

// findRedundant finds redundant architectures. A program with a directory is relative to that of the request; others
// are on PATH.
func (f *reportFlags) findRedundant(call *invocation, r *report.Report) error {
	program := f.disassembler
	if strings.ContainsRune(program, filepath.Separator) {
		var err error
		if program, err = call.Session.Files().Abs(program); err != nil {
			return err
		}
	}
	return r.FindRedundant(call.ctx, program, func(ctx context.Context, file string, visit func(int, []byte) error) error {
		_, err := call.Session.Inspect(call.ctx, file, engine.InspectOptions{Visit: visit})
		return err
	})
}

// withCode returns an error if no file has device code, and warns about single ones.
func withCode(call *invocation, files []*engine.DeviceFile) error {
	var without []string
	for _, file := range files {
		if len(file.Found) == 0 {
			without = append(without, file.Name)
		}
	}
	if len(without) == len(files) {
		return noCode(call, without)
	}
	for _, name := range without {
		call.warn("%s: %s", printable.Name(name), cmp.Or(codeElsewhere(call, name), "no device code"+printable.Name(found(call, name))))
	}
	return nil
}

// noCode returns the error for files none of which has device code.
func noCode(call *invocation, names []string) error {
	reason := "no device code"
	if len(names) == 1 {
		reason += found(call, names[0])
	}
	for _, name := range names {
		if where := codeElsewhere(call, name); where != "" {
			reason = printable.Name(name) + ": " + where
		}
	}
	return errors.New(strings.Join(names, ", ") + ": " + reason)
}
