package verb

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// limits are the flags for limits on changes between two builds.
type limits struct {
	kernels.Limits
	accepted string // a file
	advice   string // what messages call the file if accepted is empty; may be empty
}

// define defines the flags.
func (l *limits) define(flags *flagSet) {
	flags.repeated("fail-on", "comma-separated `rules`; fail when one of them is broken: spills, sgpr-spills, vgpr-spills, scratch, occupancy, vgprs, agprs, sgprs, lds, code-size, removed-kernels, removed-archs", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			if err := oneOf(strings.ReplaceAll(name, "_", "-"), kernels.RuleNames()); err != nil {
				return err
			}
		}
		rules, err := kernels.ParseRules(s)
		l.Rules = append(l.Rules, rules...)
		return err
	})
	flags.repeated("tolerance", "`RULE=CHANGE`: fail when a value of a kernel becomes worse by more than this number or percentage, such as vgprs=8 or code-size=5%. May be repeated.", func(s string) error {
		rule, growth, err := kernels.ParseTolerance(s)
		l.Tolerances = with(l.Tolerances, rule, growth)
		return err
	})
	flags.Func("max-growth", "fail when the images of an architecture grow by more than this `size` or percentage, such as 64KiB, 5% or 0", func(s string) error {
		growth, err := kernels.ParseGrowth(s)
		l.MaxGrowth = &growth
		return err
	})
	flags.StringVar(&l.accepted, "accepted", "", "a text `file` with accepted differences: RULE ARCH KERNEL CHANGE on each line. Lines that permit nothing fail.")
}

// read reads the accepted differences.
func (l *limits) read(call *invocation) error {
	if l.accepted == "" {
		return nil
	}
	if !l.Any() {
		return usageError("--accepted requires limits: --fail-on, --tolerance or --max-growth")
	}
	text, err := textOf(call, l.accepted)
	if err != nil {
		return err
	}
	if l.Accepted, err = kernels.ParseAccepted(text); err != nil {
		return fmt.Errorf("%s: %w", l.accepted, err)
	}
	return nil
}

// textOf returns the content of a file.
func textOf(call *invocation, name string) (string, error) {
	in, err := call.Session.Files().Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return string(in.All().Mapped(guard.Inside)), nil
}

// verdict returns an error for exceeded limits of a difference, and for lines that
// accept nothing. With a list, it contains the lines that accept the failures.
func (l *limits) verdict(d *kernels.Diff, names ...string) error {
	if d == nil {
		return nil
	}
	var all []error
	if len(d.Failures) > 0 {
		all = append(all, errors.New(strings.Join(append(names, listing.Failures(d)), ": ")))
	}
	if list := cmp.Or(l.accepted, l.advice); list != "" {
		for _, f := range d.Failures {
			all = append(all, fmt.Errorf("to accept the difference, add to %s: %s", list, f.Line()))
		}
	}
	for _, s := range d.Stale {
		all = append(all, fmt.Errorf("%s: line %d accepts no difference, delete it: %s", l.accepted, s.Line, s.Text))
	}
	return errors.Join(all...)
}
