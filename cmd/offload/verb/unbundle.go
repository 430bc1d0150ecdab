package verb

import (
	"context"
	"flag"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/target"
)

var unbundleVerb = verb{
	name:    "unbundle",
	summary: "Takes device images out of a bundle.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		entries := entriesFlag(flags, "write the image that serves a target to a file.")
		kind := kindFlag(flags)
		fileType := typeFlag(flags)
		input := flags.String("input", "", "the bundle, a `file`; - is standard input")
		allowMissing := flags.Bool("allow-missing", false, "make an empty file for a target that the bundle has no entry for")
		number := flags.Int("bundle", 0, "which of several bundles in the file to take, from 1; 0 means the first that serves a target")
		read, match := readFlags(flags), matchFlags(flags)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("input", *input); err != nil {
				return err
			}
			if err := entriesType(*fileType, "unbundle-archive"); err != nil {
				return err
			}
			ids, err := targets(*entries, *kind, target.Unbundling)
			if err != nil {
				return err
			}
			opt := engine.UnbundleOptions{Type: *fileType, Input: *input, AllowMissing: *allowMissing, Bundle: *number, Read: *read}
			opt.Rules, opt.Trace = match(call)
			for i, entry := range *entries {
				opt.Requests = append(opt.Requests, engine.UnbundleRequest{Target: ids[i], Output: entry.file})
			}
			_, err = call.Session.Unbundle(ctx, opt)
			return err
		}
	},
}
