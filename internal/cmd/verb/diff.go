package verb

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/report"
)

var diffVerb = verb{
	name:    "diff",
	operand: " OLD NEW [-- CLANG ARG... [; CLANG ARG...]...]",
	summary: "Compares the kernels and device images of two builds, and fails if the changes exceed limits.",
	examples: []example{
		{"Show what a change did to the kernels of a library", "offload diff old/libkernels.so new/libkernels.so"},
		{"Fail in CI when kernels spill more, lose occupancy or grow", "offload diff --fail-on=spills,occupancy --max-growth=5% old.hipfb new.hipfb"},
		{"Compare the builds of two compilers, except for accepted differences", "offload diff --fail-on=scratch,vgpr-spills --tolerance=vgprs=8 --accepted=accepted.txt --html=diff.html build-rocm7.0 build-rocm7.1"},
		{"Find flags that remove the regressions of a source", "offload diff --suggest --fail-on=scratch old.o new.o -- clang++ -x hip --offload-arch=gfx90a -O3 -c a.hip -o new.o"},
		{"Find flags that remove the regressions of a build with CMake", "offload diff --fail-on=scratch --suggest --compile-commands=build/compile_commands.json old/libmath.so build/libmath.so"},
	},
	details: "\nOLD and NEW are libraries, programs, objects, archives, bundles, code objects or directories. Images are paired by architecture, kernels by architecture and name. Images with the same bytes count once. Exit code 1 means that a limit is exceeded or a file cannot be read.\n\n" +
		"With --suggest, the arguments after -- are the commands that compile NEW or a part of it, with a ; between them as an argument; each must contain -o FILE. With --compile-commands, they are the commands of a compilation database. The commands run once as they are and once with each of a small set of additional flags, and write to a temporary directory. The result names the flags that remove an exceeded limit and make no kernel of all commands worse.",
	flags: func(flags *flagSet) runner { return new(diffFlags).define(flags) },
}

// diffFlags are the flags of offload diff.
type diffFlags struct {
	json, suggest                   bool
	html, markdown, output, message string
	old, new                        []string
	oldRemarks, newRemarks          []string
	compileCommands                 string
	tried                           []kernels.Flags // in order of appearance
	files                           map[string][]string
	limits                          limits
}

// define defines the flags and returns what runs the verb.
func (f *diffFlags) define(flags *flagSet) runner {
	flags.BoolVar(&f.json, "json", false, "print a JSON object with archs, kernels and failures; sizes in bytes")
	flags.StringVar(&f.html, "html", "", "write a page to a `file`")
	flags.StringVar(&f.markdown, "markdown", "", "write a Markdown summary of less than 65,536 characters to a `file`")
	flags.StringVar(&f.output, "output", "", "write the JSON object to a `file`")
	flags.StringVar(&f.message, "message", "", "write the error message for exceeded limits to a `file`, empty without one, and exit with code 0")
	for name, list := range map[string]*[]string{"old": &f.old, "new": &f.new} {
		flags.list(list, name, "a `file` or directory of the "+name+" build, instead of "+strings.ToUpper(name)+". May be repeated.")
	}
	for name, list := range map[string]*[]string{"old-remarks": &f.oldRemarks, "new-remarks": &f.newRemarks} {
		flags.list(list, name, "an optimization record of that build, a `file` that clang -fsave-optimization-record writes, with a name that ends with TARGET.opt.yaml. May be repeated.")
	}
	flags.BoolVar(&f.suggest, "suggest", false, "try flags with the commands after -- or of --compile-commands, and name those that remove exceeded limits")
	flags.StringVar(&f.compileCommands, "compile-commands", "", "with --suggest, the `file` compile_commands.json of the new build")
	flags.repeated("tried", "`NAME=FILE`: a file or directory of the new build with additional flags of the set of --suggest. May be repeated.", f.addTried)
	f.limits.define(flags)
	return f.run
}

// addTried adds a value of --tried.
func (f *diffFlags) addTried(s string) error {
	name, file, _ := strings.Cut(s, "=")
	set := kernels.SuggestedFlags()
	var names []string
	for _, flags := range set {
		names = append(names, flags.Name)
	}
	if err := oneOf(name, names); err != nil {
		return err
	}
	if len(f.files[name]) == 0 {
		f.tried = append(f.tried, set[slices.Index(names, name)])
	}
	f.files = with(f.files, name, append(f.files[name], file))
	return nil
}

func (f *diffFlags) run(call *invocation) error {
	commands, err := f.operands(call)
	if err != nil {
		return err
	}
	old, err := call.Session.InspectAll(call.ctx, f.old, engine.InspectOptions{})
	if err != nil {
		return err
	}
	var r report.Report
	if r.Files, err = call.Session.InspectAll(call.ctx, f.new, engine.InspectOptions{Sources: f.html != ""}); err != nil {
		return err
	}
	r.Compare(old)
	d := r.Diff
	if len(d.Archs) == 0 {
		var names []string
		for _, file := range slices.Concat(old, r.Files) {
			names = append(names, file.Name)
		}
		return noCode(call, names)
	}
	for name, gone := range map[string]kernels.Change{strings.Join(f.old, ", "): kernels.Added, strings.Join(f.new, ", "): kernels.Removed} {
		if !slices.ContainsFunc(d.Archs, func(a kernels.ChangedArch) bool { return a.Change != gone }) {
			call.warn("%s: no device code%s", printable.Name(name), printable.Name(found(call, name)))
		}
	}
	f.limits.Check(d)
	var remarks [2]kernels.Remarks
	for i, names := range [][]string{f.oldRemarks, f.newRemarks} {
		for _, name := range names {
			if err := addRemarks(call, &remarks[i], name, kernels.RecordArch(name)); err != nil {
				return err
			}
		}
	}
	for _, flags := range f.tried {
		tried, err := call.Session.InspectAll(call.ctx, f.files[flags.Name], engine.InspectOptions{})
		if err != nil {
			return err
		}
		f.limits.Suggest(d, engine.ImagesOf(old), engine.ImagesOf(r.Files), engine.ImagesOf(tried), flags)
	}
	if len(d.Failures) > 0 && len(commands) > 0 {
		if err := f.try(call, commands, d, engine.ImagesOf(old), engine.ImagesOf(r.Files), &remarks[1]); err != nil {
			return err
		}
	}
	d.AddRemarks(&remarks[0], &remarks[1])
	return f.write(call, &r)
}

// operands completes the files of the builds, and returns the commands of --suggest.
func (f *diffFlags) operands(call *invocation) (commands []buildCommand, err error) {
	operands := call.operands
	if len(f.old) == 0 && len(f.new) == 0 && len(operands) >= 2 {
		f.old, f.new, operands = operands[:1], operands[1:2], operands[2:]
	}
	switch {
	case len(f.old) == 0 || len(f.new) == 0:
		return nil, usageError(fmt.Sprintf("expected two files, OLD and NEW, found %d", len(operands)+len(f.old)+len(f.new)))
	case len(operands) > 0 && !f.suggest:
		return nil, usageError(fmt.Sprintf("expected two files, OLD and NEW, found %d; to try flags with a compile command, add --suggest", len(operands)+len(f.old)+len(f.new)))
	case f.suggest && len(operands) == 0 && f.compileCommands == "":
		return nil, usageError("--suggest requires a compile command: add -- and clang's command line, with -o FILE, or --compile-commands")
	case f.compileCommands != "" && (!f.suggest || len(operands) > 0):
		return nil, usageError("--compile-commands requires --suggest, and no command after --")
	case f.suggest && call.Worker:
		return nil, errors.New("diff --suggest: a worker cannot run a compiler")
	case (f.suggest || len(f.tried) > 0) && !f.limits.Any():
		return nil, usageError("suggestions require limits: --fail-on, --tolerance or --max-growth")
	}
	if commands, err = afterDashes(operands); err == nil && f.compileCommands != "" {
		commands, err = compileCommands(call, f.compileCommands)
	}
	if err != nil {
		return nil, err
	}
	return commands, f.limits.read(call)
}

// addRemarks adds an optimization record for an architecture.
func addRemarks(call *invocation, to *kernels.Remarks, name, arch string) error {
	text, err := textOf(call, name)
	if err == nil {
		if err = to.Add(arch, text); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return err
}

// write writes the outputs and returns the verdict.
func (f *diffFlags) write(call *invocation, r *report.Report) error {
	names := []string{strings.Join(f.new, ", ")}
	if f.message != "" { // the files are outputs of Bazel
		names, f.limits.advice = nil, "a text file for the attribute accepted"
	}
	verdict := f.limits.verdict(r.Diff, names...)
	message := func(w io.Writer) error {
		for _, line := range messages(call.Call, verdict) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	}
	if verdict == nil {
		message = func(io.Writer) error { return nil }
	}
	err := writeGiven(call, engine.Output{Name: f.html, Write: r.WriteHTML}, engine.Output{Name: f.markdown, Write: r.WriteMarkdown},
		engine.Output{Name: f.output, Write: func(w io.Writer) error { return listing.JSON(w, r.Diff) }}, engine.Output{Name: f.message, Write: message})
	if err == nil {
		switch {
		case f.json:
			err = listing.JSON(call.Stdout, r.Diff)
		case f.html+f.markdown+f.output+f.message == "":
			err = listing.Diff(call.Stdout, r.Diff)
		}
	}
	if err != nil || f.message != "" {
		return err
	}
	return verdict
}
