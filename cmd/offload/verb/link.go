package verb

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
)

var linkVerb = verb{
	name:    "link",
	operand: " INPUT...",
	summary: "Links the device images of a host link's inputs and makes the object that registers them.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var opt engine.LinkOptions
		flags.StringVar(&opt.Triple, "triple", "", "the host's target `triple`, such as x86_64-unknown-linux-gnu")
		flags.StringVar(&opt.Clang, "clang", "clang", "the compiler `program` that links for all devices; finds lld beside itself")
		flags.Func("device-arg", "`[TRIPLE=]ARG`: an argument for the device links, of one triple or all, such as -lomp. May be repeated.", func(s string) error {
			triple, arg, ok := strings.Cut(s, "=")
			if !ok || strings.HasPrefix(s, "-") {
				triple, arg = "", s
			}
			opt.DeviceArgs = append(opt.DeviceArgs, engine.DeviceArg{Triple: triple, Arg: arg})
			return nil
		})
		flags.BoolVar(&opt.WholeArchive, "whole-archive", false, "link images in archives even for targets that no object is for")
		flags.StringVar(&opt.Output, "output", "", "the registration object, a `file`")
		flags.BoolVar(&opt.Relocatable, "relocatable", false, "make the output the inputs themselves, linked into one object that needs no device link any more")
		scratch := flags.String("scratch", "", "keep what is linked in this `directory`")
		plan := flags.Bool("plan", false, "print the commands instead of running them")
		asJSON := flags.Bool("json", false, "print the plan as JSON, with the images of each link")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if len(operands) == 0 {
				return usageError("no inputs")
			}
			opt.Inputs = operands
			if *plan || *asJSON {
				planned, err := call.Session.PlanLink(ctx, opt)
				if err != nil {
					return err
				}
				return printPlan(call.Stdout, planned, *asJSON)
			}
			if err := required("triple", opt.Triple); err != nil {
				return err
			}
			if err := required("output", opt.Output); err != nil {
				return err
			}
			var err error
			if opt.Clang != filepath.Base(opt.Clang) { // it is run in another directory
				if opt.Clang, err = filepath.Abs(opt.Clang); err != nil {
					return err
				}
			}
			if opt.Scratch, err = filepath.Abs(*scratch); err != nil {
				return err
			}
			if *scratch == "" {
				if opt.Scratch, err = os.MkdirTemp("", "offload-link-"); err != nil {
					return err
				}
				defer os.RemoveAll(opt.Scratch)
			} else if err := os.MkdirAll(opt.Scratch, 0o777); err != nil {
				return err
			}
			path, _ := call.LookupEnv("PATH")
			opt.Env = []string{"PATH=" + path, "TMPDIR=" + opt.Scratch}
			messages, err := call.Session.Link(ctx, opt)
			io.WriteString(call.Stderr, messages)
			return err
		}
	},
}

// printPlan prints what a device link does: a line for each command, or all of
// it as JSON.
func printPlan(w io.Writer, plan *engine.LinkPlan, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(plan)
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

// quoted returns arg as a shell reads it.
func quoted(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
