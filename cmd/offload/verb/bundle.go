package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
)

var bundleVerb = verb{
	name:    "bundle",
	summary: "Puts the device images of several targets into one bundle.",
	details: "\nEntries are in the order of the flags. HIP programs expect a host entry without a file first, and entries aligned to 4096 bytes.",
	examples: []example{
		{"Bundle code objects for two GPUs as a HIP program loads them", "offload bundle --type o --output kernels.hipfb --align 4096 --entry host-x86_64-unknown-linux-gnu= --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co"},
		{"The same, compressed", "offload bundle --compress --output kernels.hipfb --align 4096 --entry host-x86_64-unknown-linux-gnu= --entry gfx90a=gfx90a.co --entry gfx942=gfx942.co"},
	},
	flags: func() action { return &bundleFlags{fileType: "o"} },
}

// bundleFlags are the flags of offload bundle.
type bundleFlags struct {
	entries    []entryFlag
	kind       string
	fileType   bundle.FileType
	output     string
	align      uint64
	shareEqual bool
	compression
}

func (f *bundleFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "an entry of the bundle; without FILE it is empty.")
	kindFlag(flags, &f.kind)
	typeFlag(flags, &f.fileType, "o")
	flags.StringVar(&f.output, "output", "", "the bundle, a `file`; - is standard output")
	flags.Uint64Var(&f.align, "align", 1, "offsets of entries are multiples of this many `bytes`")
	flags.BoolVar(&f.shareEqual, "share-equal", false, "store equal contents once")
	f.compression.define(flags)
}

func (f *bundleFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := noOperands(operands); err != nil {
		return err
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
	_, err = call.Session.Bundle(ctx, engine.BundleOptions{
		Type: f.fileType, Entries: entries, Output: f.output, Align: f.align, ShareEqual: f.shareEqual, Compress: f.compression.options(),
	})
	return sizeAdvice(err)
}

// sizeAdvice adds to the failure of a bundle that is too large what to do.
func sizeAdvice(err error) error {
	if errors.As(err, new(ccob.LimitError)) {
		return fmt.Errorf("%w, which is 4 GiB: write version 3, or drop targets", err)
	}
	return err
}
