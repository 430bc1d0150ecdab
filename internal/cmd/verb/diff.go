package verb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var diffVerb = verb{
	name:    "diff",
	operand: " OLD NEW",
	summary: "Compares the kernels and device images of two files, and fails if the changes exceed limits.",
	examples: []example{
		{"Show what a change did to the kernels of a library", "offload diff old/libkernels.so new/libkernels.so"},
		{"Fail in CI when kernels spill more, lose occupancy or grow", "offload diff --fail-on=spills,occupancy --max-growth=5% old.hipfb new.hipfb"},
	},
	details:   "\nImages are paired by architecture, kernels by architecture and name. Exit code 1 means that a limit is exceeded or a file cannot be read.",
	readsOnly: true,
	flags:     func() action { return new(diffFlags) },
}

// diffFlags are the flags of offload diff.
type diffFlags struct {
	json   bool
	limits kernels.Limits
}

func (f *diffFlags) define(flags *flagSet) {
	flags.BoolVar(&f.json, "json", false, "print a JSON object with archs, kernels and failures; sizes in bytes")
	limitsFlags(flags, &f.limits)
}

// limitsFlags defines the flags for limits on changes between two builds.
func limitsFlags(flags *flagSet, limits *kernels.Limits) {
	flags.repeated("fail-on", "comma-separated `rules`; fail when one of them is broken: spills, scratch, occupancy, removed-kernels, removed-archs", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			if err := oneOf(name, kernels.RuleNames()); err != nil {
				return err
			}
		}
		rules, err := kernels.ParseRules(s)
		limits.Rules = append(limits.Rules, rules...)
		return err
	})
	flags.Func("max-growth", "fail when the images of an architecture grow by more than this `size` or percentage, such as 64KiB, 5% or 0", func(s string) error {
		growth, err := kernels.ParseGrowth(s)
		limits.MaxGrowth = &growth
		return err
	})
}

func (f *diffFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) != 2 {
		return usageError(fmt.Sprintf("expected two files, OLD and NEW, found %d", len(operands)))
	}
	d, err := call.Session.Diff(ctx, engine.DiffOptions{Old: operands[0], New: operands[1], Limits: f.limits})
	if err != nil {
		return err
	}
	for name, gone := range map[string]kernels.Change{operands[0]: kernels.Added, operands[1]: kernels.Removed} {
		if len(d.Archs) > 0 && !slices.ContainsFunc(d.Archs, func(a kernels.ChangedArch) bool { return a.Change != gone }) {
			fmt.Fprintf(call.Stderr, "offload diff: warning: %s: no device code\n", printable.Name(name))
		}
	}
	if f.json {
		err = listing.DiffJSON(call.Stdout, d)
	} else {
		err = listing.Diff(call.Stdout, d)
	}
	if err != nil {
		return err
	}
	if len(d.Failures) > 0 {
		return errors.New(operands[1] + ": " + listing.Failures(d))
	}
	return nil
}
