package verb

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/check"
)

var archiveVerb = verb{
	name:    "archive",
	operand: " FILE...",
	summary: "Creates an archive of bundles and bundled objects for several devices.",
	examples: []example{
		{"Make a static library of bundled objects", "offload archive --check --output libkernels.a gemm.o scan.o"},
	},
	flags: func(flags *flagSet) runner {
		var opt engine.ArchiveOptions
		flags.required(&opt.Output, "output", "the archive, a `file`; - is standard output")
		flags.inputs(&opt.Inputs, "the bundles and objects to put into the archive")
		flags.BoolVar(&opt.Check, "check", false, "reject files with entries that cannot be in one bundle")
		readFlags(flags, &opt.Read)
		return operation(&opt, (*engine.Session).Archive)
	},
}

var unbundleArchiveVerb = verb{
	name:    "unbundle-archive",
	operand: " FILE",
	summary: "Extracts the device images for a target from an archive into a new archive.",
	examples: []example{
		{"Make a library of the device code for one GPU", "offload unbundle-archive libkernels.a --entry gfx942=libkernels-gfx942.a"},
	},
	flags: func(flags *flagSet) runner {
		opt := engine.UnbundleOptions{Type: bundle.ArchiveType}
		var entries entries
		var matching matching
		entries.define(flags, "write the images that serve a target to an archive.")
		flags.input(&opt.Input, "the archive, a `file`; - is standard input")
		flags.BoolVar(&opt.AllowMissing, "allow-missing", false, "write an empty archive for a target that no entry serves")
		flags.BoolVar(&opt.Check, "check", false, "reject members with entries that cannot be in one bundle")
		readFlags(flags, &opt.Read)
		matching.define(flags)
		return func(call *invocation) (err error) {
			if opt.Requests, err = entries.requests(); err != nil {
				return err
			}
			opt.Rules, opt.Trace = matching.rules, matching.trace(call)
			_, err = call.Session.Unbundle(call.ctx, opt)
			var missing *engine.MissingError
			var format *ar.FormatError
			switch {
			case errors.As(err, &format) && format.Fault == ar.NoArchive:
				return fmt.Errorf("%s: not an archive%s", opt.Input, foundCode(call, opt.Input, "run offload unbundle", check.PlainBundle, check.CompressedBundle))
			case !errors.As(err, &missing):
				return err
			}
			has := cmp.Or(strings.Join(missing.Stored, ", "), "no entries")
			return fmt.Errorf("%s: no entry serves %s; the archive has %s; choose another target, or add --allow-missing (allow_missing = True in rules)", missing.Archive, missing.Targets[0], has)
		}
	},
}
