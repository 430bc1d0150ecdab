package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var unbundleArchiveVerb = verb{
	name:    "unbundle-archive",
	operand: " FILE",
	summary: "Extracts the device images for a target from an archive into a new archive.",
	examples: []example{
		{"Make a library of the device code for one GPU", "offload unbundle-archive libkernels.a --entry gfx942=libkernels-gfx942.a"},
	},
	flags: func() action { return new(unbundleArchiveFlags) },
}

// unbundleArchiveFlags are the flags of offload unbundle-archive.
type unbundleArchiveFlags struct {
	entries      []entryFlag
	kind         string
	input        string
	allowMissing bool
	check        bool
	read         engine.ReadOptions
	matching
}

func (f *unbundleArchiveFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "write the images that serve a target to an archive.")
	kindFlag(flags, &f.kind)
	flags.input(&f.input, "the archive, a `file`; - is standard input")
	flags.BoolVar(&f.allowMissing, "allow-missing", false, "write an empty archive for a target that no entry serves")
	flags.BoolVar(&f.check, "check", false, "reject members with entries that cannot be in one bundle")
	readFlags(flags, &f.read)
	f.matching.define(flags)
}

func (f *unbundleArchiveFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := oneInput(&f.input, operands); err != nil {
		return err
	}
	requests, err := unbundleRequests(f.entries, f.kind)
	if err != nil {
		return err
	}
	err = call.Session.UnbundleArchive(ctx, engine.UnbundleArchiveOptions{
		Input: f.input, Requests: requests, AllowMissing: f.allowMissing, Check: f.check,
		Read: warned(call, "unbundle-archive", f.read), Rules: f.rules, Trace: f.trace(call),
	})
	var missing *engine.NoCodeObjectError
	var format *ar.FormatError
	switch {
	case errors.As(err, &format) && format.Fault == ar.NoArchive:
		format := formatOf(call, f.input)
		what := foundFormat(format)
		if format == check.PlainBundle || format == check.CompressedBundle {
			what += "; run offload unbundle"
		}
		return fmt.Errorf("%s: not an archive%s", f.input, what)
	case !errors.As(err, &missing):
		return err
	}
	has := "no entries"
	if len(missing.Stored) > 0 {
		has = strings.Join(missing.Stored, ", ")
	}
	return fmt.Errorf("%s: no entry serves %s; the archive has %s; choose another target, or add --allow-missing (allow_missing = True in rules)", missing.Archive, missing.Target, has)
}
