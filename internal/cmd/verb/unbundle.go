package verb

import (
	"errors"
	"fmt"
	"math"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/check"
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
	flags: func(flags *flagSet) runner {
		opt := engine.UnbundleOptions{Type: bundle.ObjectType}
		var entries entries
		var matching matching
		entries.define(flags, "write the image that serves a target to a file.")
		typeFlag(flags, &opt.Type, "o")
		flags.input(&opt.Input, "the bundle, a `file`; - is standard input")
		flags.BoolVar(&opt.AllowMissing, "allow-missing", false, "write an empty file for a target that no entry of the bundle serves")
		flags.number(&opt.Bundle, "bundle", "the `number` of the bundle to read if the file has several, from 1 (default: the first that serves a target)", 1, math.MaxInt32)
		readFlags(flags, &opt.Read)
		matching.define(flags)
		return func(call *invocation) (err error) {
			if err := entriesType(opt.Type, "unbundle-archive"); err != nil {
				return err
			}
			if opt.Requests, err = entries.requests(); err != nil {
				return err
			}
			opt.Rules, opt.Trace = matching.rules, matching.trace(call)
			_, err = call.Session.Unbundle(call.ctx, opt)
			var missing *engine.MissingError
			if errors.As(err, &missing) && len(missing.Stored) == 0 {
				return fmt.Errorf("%s: no bundle entries%s", opt.Input, foundCode(call, opt.Input, "for device code in programs and libraries, run offload extract", check.ELF, check.Archive))
			}
			return err
		}
	},
}
