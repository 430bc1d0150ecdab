package verb

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

var unbundleVerb = verb{
	name:    "unbundle",
	operand: " FILE",
	summary: "Extracts device images from a bundle.",
	details: "\nA target gets the entry with the same target ID, or else an entry that leaves features unspecified.",
	examples: []example{
		{"Write the code object for one GPU to a file", "offload unbundle kernels.hipfb --entry gfx942=gfx942.co"},
		{"Find out why no entry serves a target", "offload unbundle --explain kernels.hipfb --entry gfx90a:xnack-=gfx90a.co"},
	},
	onlyOutputs: true,
	flags:       func() action { return &unbundleFlags{fileType: "o"} },
}

// unbundleFlags are the flags of offload unbundle.
type unbundleFlags struct {
	entries      []entryFlag
	kind         string
	fileType     bundle.FileType
	input        string
	allowMissing bool
	number       int
	read         engine.ReadOptions
	matching
}

func (f *unbundleFlags) define(flags *flagSet) {
	entriesFlag(flags, &f.entries, "write the image that serves a target to a file.")
	kindFlag(flags, &f.kind)
	typeFlag(flags, &f.fileType, "o")
	flags.input(&f.input, "the bundle, a `file`; - is standard input")
	flags.BoolVar(&f.allowMissing, "allow-missing", false, "write an empty file for a target that no entry of the bundle serves")
	flags.number(&f.number, "bundle", "the `number` of the bundle to read if the file has several, from 1 (default: the first that serves a target)", 1, math.MaxInt32)
	readFlags(flags, &f.read)
	f.matching.define(flags)
}

func (f *unbundleFlags) run(ctx context.Context, call *command.Call, operands []string) error {
	if err := oneInput(&f.input, operands); err != nil {
		return err
	}
	if err := entriesType(f.fileType, "unbundle-archive"); err != nil {
		return err
	}
	requests, err := unbundleRequests(f.entries, f.kind)
	if err != nil {
		return err
	}
	var missing *engine.MissingError
	_, err = call.Session.Unbundle(ctx, engine.UnbundleOptions{
		Type: f.fileType, Input: f.input, Requests: requests, AllowMissing: f.allowMissing, Bundle: f.number,
		Read: warned(call, "unbundle", f.read), Rules: f.rules, Trace: f.trace(call),
	})
	if errors.As(err, &missing) && len(missing.Stored) == 0 {
		format := formatOf(call, f.input)
		what := foundFormat(format)
		if format == check.ELF || format == check.Archive {
			what += "; for device code in programs and libraries, run offload extract"
		}
		return fmt.Errorf("%s: no bundle entries%s", f.input, what)
	}
	return err
}
