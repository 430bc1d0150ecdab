package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
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
	flags:       func() action { return &bundleFlags{fileType: "o"} },
}

// bundleFlags are the flags of offload bundle.
type bundleFlags struct {
	entries    []entryFlag
	kind       string
	fileType   bundle.FileType
	output     string
	align      uint64
	shareEqual bool
	flags      *flagSet
	compression
}

func (f *bundleFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "an entry of the bundle; without FILE it is empty.")
	kindFlag(flags, &f.kind)
	typeFlag(flags, &f.fileType, "o")
	flags.StringVar(&f.output, "output", "", "the bundle, a `file`; - is standard output")
	flags.align(&f.align)
	flags.BoolVar(&f.shareEqual, "share-equal", false, "store identical contents once")
	f.compression.define(flags)
	f.flags = flags
}

func (f *bundleFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if len(operands) > 0 {
		return usageError("unexpected argument " + operands[0] + "; write --entry TARGET=" + operands[0])
	}
	if err := required("output", f.output); err != nil {
		return err
	}
	if err := entriesType(f.fileType, "archive"); err != nil {
		return err
	}
	entries, err := bundleEntries(f.entries, f.kind)
	if err != nil {
		return err
	}
	compress, err := f.options(f.flags)
	if err != nil {
		return err
	}
	for _, e := range f.entries {
		warnOfCode(call, "bundle", "entry", e.target, e.file)
	}
	_, err = call.Session.Bundle(ctx, engine.BundleOptions{
		Type: f.fileType, Entries: entries, Output: f.output, Align: f.align, ShareEqual: f.shareEqual, Compress: compress,
	})
	return sizeAdvice(err)
}

// sizeAdvice adds advice to the error for a bundle that is too large.
func sizeAdvice(err error) error {
	if limit := (*ccob.LimitError)(nil); errors.As(err, &limit) {
		return fmt.Errorf("%w; write version 3, or remove targets", err)
	}
	return err
}
