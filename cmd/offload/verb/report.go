package verb

import (
	"context"
	"io"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/report"
	"github.com/rules-offload/rules_offload/engine"
)

var reportVerb = verb{
	name:    "report",
	operand: " FILE...",
	summary: "Writes a report of the device code in files: a page to look at, Markdown for a comment, JSON.",
	details: "\nThe page is one file that loads nothing: a map of what takes the space, and a table of all kernels that can be searched and sorted.",
	examples: []example{
		{"See what a library consists of", "offload report --html report.html /opt/rocm/lib/librccl.so"},
		{"See what a change did to it", "offload report --html report.html --base old/librccl.so new/librccl.so"},
		{"Summarize what a build made, for a comment on a change", "offload report --markdown comment.md --json report.json kernels.hipfb program"},
	},
	flags: func() action { return new(reportFlags) },
}

// reportFlags are the flags of offload report.
type reportFlags struct {
	html, markdown, json string
	base                 []string
}

func (f *reportFlags) define(flags *flagSet) {
	flags.StringVar(&f.html, "html", "", "write a page to a `file`; - is standard output")
	flags.StringVar(&f.markdown, "markdown", "", "write a summary in Markdown to a `file`, below 65,536 characters")
	flags.StringVar(&f.json, "json", "", "write all figures in JSON to a `file`")
	flags.repeated("base", "compare with an older `file`, and report what changed. May be repeated.", func(s string) error {
		f.base = append(f.base, s)
		return nil
	})
}

func (f *reportFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) == 0 {
		return usageError("want at least one file, got none")
	}
	if f.html == "" && f.markdown == "" && f.json == "" {
		return usageError("no output: give --html, --markdown or --json")
	}
	var r report.Report
	var err error
	if r.Files, err = f.read(ctx, call, operands); err != nil {
		return err
	}
	if len(f.base) > 0 {
		old, err := f.read(ctx, call, f.base)
		if err != nil {
			return err
		}
		r.Compare(old)
	}
	out := call.Session.Files().Outputs()
	defer out.Abort()
	for _, o := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.html, r.WriteHTML}, {f.markdown, r.WriteMarkdown}, {f.json, r.WriteJSON}} {
		if o.name == "" {
			continue
		}
		file, err := out.Create(o.name)
		if err != nil {
			return err
		}
		if err := o.write(file); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return out.Commit()
}

// read reads the kernels of files.
func (f *reportFlags) read(ctx context.Context, call *command.Call, names []string) ([]*engine.DeviceFile, error) {
	var all []*engine.DeviceFile
	for _, name := range names {
		file, err := call.Session.Kernels(ctx, engine.InspectOptions{Input: name, Hash: len(f.base) > 0})
		if err != nil {
			return nil, err
		}
		all = append(all, file)
	}
	return all, nil
}
