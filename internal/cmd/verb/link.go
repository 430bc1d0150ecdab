package verb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

var linkVerb = verb{
	name:    "link",
	operand: " INPUT...",
	summary: "Links the device images in the inputs of a host link, and writes the object that registers them.",
	examples: []example{
		{"Link the device code of two objects", "offload link --triple x86_64-unknown-linux-gnu --output registration.o main.o kernels.o"},
		{"Print the device links without running them", "offload link --plan main.o kernels.o"},
	},
	flags: func(flags *flagSet) runner { return new(linkFlags).define(flags) },
}

// linkFlags are the flags of offload link.
type linkFlags struct {
	opt        link.EveryTargetOptions
	scratch    string
	plan, json bool
	quiet      bool
}

// define defines the flags and returns what runs the verb.
func (f *linkFlags) define(flags *flagSet) runner {
	flags.operands(&f.opt.Inputs, "the inputs are missing: expected the inputs of the host link")
	flags.StringVar(&f.opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu")
	flags.StringVar(&f.opt.Clang, "clang", "clang", "the compiler `program` that links for all devices; it finds lld in its own directory")
	flags.repeated("device-arg", "`[TRIPLE=]ARG`: an argument for the device links of one triple or of all, such as -lomp. May be repeated.", func(s string) error {
		triple, arg, ok := strings.Cut(s, "=")
		if !ok || strings.HasPrefix(s, "-") {
			triple, arg = "", s
		}
		f.opt.DeviceArgs = append(f.opt.DeviceArgs, devicelink.Arg{Triple: triple, Arg: arg})
		return nil
	})
	flags.BoolVar(&f.opt.WholeArchive, "whole-archive", false, "link images in archives even if no object is for their target")
	flags.StringVar(&f.opt.Output, "output", "", "the registration object, a `file`")
	flags.BoolVar(&f.opt.Relocatable, "relocatable", false, "link the inputs into one object, the output, which needs no later device link")
	flags.StringVar(&f.opt.Advice, "advice", "link the object or archive that defines it, too", "`text` about what to do, in the message about undefined symbols")
	flags.directory(&f.scratch, "scratch", "", "keep the linked images in this `directory`")
	flags.BoolVar(&f.quiet, "no-warn-missing-kernels", false, "do not warn about kernels that are not in the image which the runtime selects on a GPU, because an object has no code for its target")
	flags.BoolVar(&f.plan, "plan", false, "print the commands instead of running them")
	flags.BoolVar(&f.json, "json", false, "print the plan as JSON, with the images of each link")
	return f.run
}

func (f *linkFlags) run(call *invocation) error {
	if call.Worker {
		return errors.New("link: cannot run as a worker request: found a persistent worker, expected a process with its own directory and PATH, to run the compiler in; remove supports-workers from the action")
	}
	if f.plan || f.json {
		planned, err := link.PlanEveryTarget(call.ctx, call.Session, f.opt)
		if err != nil {
			return err
		}
		return printPlan(call.Stdout, planned, f.json)
	}
	if err := required("triple", f.opt.Triple, "output", f.opt.Output); err != nil {
		return err
	}
	var err error
	if f.opt.Clang != filepath.Base(f.opt.Clang) { // it is run in another directory
		if f.opt.Clang, err = filepath.Abs(f.opt.Clang); err != nil {
			return err
		}
	}
	if f.opt.Scratch, err = filepath.Abs(f.scratch); err != nil {
		return err
	}
	if f.scratch == "" {
		dir, err := scratch.New("offload-link-")
		if err != nil {
			return err
		}
		defer dir.Remove()
		f.opt.Scratch = dir.Path
	} else if err := os.MkdirAll(f.opt.Scratch, 0o777); err != nil {
		return err
	}
	path, _ := call.LookupEnv("PATH")
	f.opt.Env = []string{"PATH=" + path, "TMPDIR=" + f.opt.Scratch}
	if !f.quiet {
		f.opt.Missing = func(m *link.MissingKernels) { call.warn("%s: %s", f.opt.Output, printable.Text(m.String())) }
	}
	messages, err := link.EveryTarget(call.ctx, call.Session, f.opt)
	io.WriteString(call.Stderr, printable.Text(messages))
	return err
}

// printPlan prints what a device link does: a line for each command, or all of
// it as JSON.
func printPlan(w io.Writer, plan *link.EveryTargetPlan, asJSON bool) error {
	if asJSON {
		return listing.JSON(w, plan)
	}
	for _, link := range plan.Links {
		for i, arg := range link.Command {
			if i > 0 {
				io.WriteString(w, " ")
			}
			if _, err := io.WriteString(w, quoted(arg)); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// quoted returns arg as a shell reads it. What cannot be printed is written in the
// form $'...' of bash, zsh and ksh.
func quoted(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	switch {
	case arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0:
		return arg
	case printable.Name(arg) == arg:
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(arg) {
		switch c := arg[i]; {
		case c == '\'' || c == '\\':
			b.WriteString("\\" + string(c))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
