package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/target"
)

var bundleVerb = verb{
	name:    "bundle",
	summary: "Puts the device images of several targets into one bundle.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		entries := entriesFlag(flags, "an entry of the bundle; without FILE it is empty.")
		kind := kindFlag(flags)
		fileType := typeFlag(flags)
		output := flags.String("output", "", "the bundle, a `file`; - is standard output")
		align := flags.Uint64("align", 1, "offsets of entries are multiples of this many `bytes`")
		share := flags.Bool("share-equal", false, "store equal contents once")
		compression := compressFlags(flags)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if err := noOperands(operands); err != nil {
				return err
			}
			if err := required("output", *output); err != nil {
				return err
			}
			if err := entriesType(*fileType, "archive"); err != nil {
				return err
			}
			ids, err := targets(*entries, *kind, target.Bundling)
			if err != nil {
				return err
			}
			opt := engine.BundleOptions{Type: *fileType, Output: *output, Align: *align, ShareEqual: *share, Compress: compression()}
			for i, entry := range *entries {
				opt.Entries = append(opt.Entries, engine.BundleEntry{Target: ids[i], Input: entry.file})
			}
			_, err = call.Session.Bundle(ctx, opt)
			return sizeAdvice(err)
		}
	},
}

// sizeAdvice adds to the failure of a bundle that is too large what to do.
func sizeAdvice(err error) error {
	if errors.As(err, new(ccob.LimitError)) {
		return fmt.Errorf("%w, which is 4 GiB: write version 3, or drop targets", err)
	}
	return err
}
