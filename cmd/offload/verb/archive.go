package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
)

var archiveVerb = verb{
	name:    "archive",
	operand: " FILE...",
	summary: "Puts bundles and bundled objects into an archive for several devices.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		output := flags.String("output", "", "the archive, a `file`; - is standard output")
		check := flags.Bool("check", false, "refuse files with entries that cannot be in one bundle")
		read := readFlags(flags)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := required("output", *output); err != nil {
				return err
			}
			if len(operands) == 0 {
				return usageError("no files: name the bundles and objects to put into the archive")
			}
			return call.Session.Archive(ctx, engine.ArchiveOptions{Inputs: operands, Output: *output, Check: *check, Read: *read})
		}
	},
}

var unbundleArchiveVerb = verb{
	name:    "unbundle-archive",
	summary: "Takes the device images for a target out of an archive, into an archive.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		entries := entriesFlag(flags, "write the images that serve a target to an archive.")
		kind := kindFlag(flags)
		input := flags.String("input", "", "the archive, a `file`; - is standard input")
		allowMissing := flags.Bool("allow-missing", false, "make an empty archive for a target that nothing serves")
		check := flags.Bool("check", false, "refuse members with entries that cannot be in one bundle")
		read, match := readFlags(flags), matchFlags(flags)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("input", *input); err != nil {
				return err
			}
			ids, err := targets(*entries, *kind, target.Unbundling)
			if err != nil {
				return err
			}
			opt := engine.UnbundleArchiveOptions{Input: *input, AllowMissing: *allowMissing, Check: *check, Read: *read}
			opt.Rules, opt.Trace = match(call)
			for i, entry := range *entries {
				opt.Requests = append(opt.Requests, engine.UnbundleRequest{Target: ids[i], Output: entry.file})
			}
			err = call.Session.UnbundleArchive(ctx, opt)
			var missing *engine.NoCodeObjectError
			if !errors.As(err, &missing) {
				return err
			}
			has := "no entries"
			if len(missing.Stored) > 0 {
				has = strings.Join(missing.Stored, ", ")
			}
			return fmt.Errorf("%s: no entry serves %s; the archive has %s: take another target, or allow a missing one", missing.Archive, missing.Target, has)
		}
	},
}
