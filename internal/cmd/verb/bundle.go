package verb

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
)

var bundleVerb = verb{
	name:    "bundle",
	summary: "Creates a bundle of device images for several targets.",
	details: "\nEntries have the order of the flags. HIP programs expect first a host entry without a file, and entries aligned to 4096 bytes.",
	examples: []example{
		{"Bundle code objects for two GPUs as a HIP program loads them", "offload bundle --type o --output kernels.hipfb --align 4096 --entry host-x86_64-unknown-linux-gnu= --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co"},
		{"The same, compressed", "offload bundle --compress --output kernels.hipfb --align 4096 --entry host-x86_64-unknown-linux-gnu= --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co"},
	},
	onlyOutputs: true,
	flags: func(flags *flagSet) runner {
		opt := engine.BundleOptions{Type: bundle.ObjectType}
		var entries entries
		var compress compression
		entries.define(flags, "an entry of the bundle; without FILE it is empty.")
		typeFlag(flags, &opt.Type, "o")
		flags.check(func(operands []string) error {
			if len(operands) > 0 {
				return usageError("unexpected argument " + operands[0] + "; write --entry TARGET=" + operands[0])
			}
			return nil
		})
		flags.required(&opt.Output, "output", "the bundle, a `file`; - is standard output")
		flags.align(&opt.Align)
		flags.BoolVar(&opt.ShareEqual, "share-equal", false, "store identical contents once")
		compress.define(flags)
		return func(call *invocation) (err error) {
			if err := entriesType(opt.Type, "archive"); err != nil {
				return err
			}
			if opt.Entries, err = entries.bundle(); err != nil {
				return err
			}
			if opt.Compress, err = compress.options(flags); err != nil {
				return err
			}
			for _, e := range entries.list {
				warnOfCode(call, "entry", e.target, e.file)
			}
			_, err = call.Session.Bundle(call.ctx, opt)
			return sizeAdvice(err)
		}
	},
}

// sizeAdvice adds advice to the error for a bundle that is too large.
func sizeAdvice(err error) error {
	if limit := (*ccob.LimitError)(nil); errors.As(err, &limit) {
		return fmt.Errorf("%w; write version 3, or remove targets", err)
	}
	return err
}
