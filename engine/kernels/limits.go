package kernels

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/sizes"
)

// Rule is a limit on the difference between two builds.
type Rule string

// The rules.
const (
	MoreSpills     Rule = "spills"          // a kernel spills more SGPRs or VGPRs
	MoreScratch    Rule = "scratch"         // a kernel uses more scratch
	LessOccupancy  Rule = "occupancy"       // a kernel has fewer waves
	RemovedKernels Rule = "removed-kernels" // a kernel of an architecture of both builds is missing
	RemovedArchs   Rule = "removed-archs"   // an architecture is missing
	MaxGrowth      Rule = "max-growth"      // the images of an architecture grew too much
)

// rules are the rules that ParseRules accepts, in the order of failures.
var rules = []Rule{MoreSpills, MoreScratch, LessOccupancy, RemovedKernels, RemovedArchs}

// ParseRules parses a comma-separated list of rules. It does not accept
// MaxGrowth, which has a number.
func ParseRules(list string) ([]Rule, error) {
	var found []Rule
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(rules, Rule(name)) {
			return nil, fmt.Errorf("found %q, expected a list of: %s", name, strings.Join(RuleNames(), ", "))
		}
		found = append(found, Rule(name))
	}
	return found, nil
}

// RuleNames returns the names of the rules that ParseRules accepts.
func RuleNames() []string {
	var names []string
	for _, r := range rules {
		names = append(names, string(r))
	}
	return names
}

// Growth is the permitted growth of images: Bytes or, if Relative is set,
// Percent of the old size.
type Growth struct {
	Bytes    int64
	Percent  float64
	Relative bool
}

// ParseGrowth parses a growth: a size as internal/sizes reads it, such as 64KiB, or a percentage
// such as 5%.
func ParseGrowth(s string) (Growth, error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || strings.Trim(number, "0123456789.") != "" {
			return Growth{}, fmt.Errorf("found %q, expected a percentage such as 5%%", s)
		}
		return Growth{Percent: percent, Relative: true}, nil
	}
	size, err := sizes.Parse(s)
	if err != nil {
		return Growth{}, fmt.Errorf("%w, or a percentage such as 5%%", err)
	}
	return Growth{Bytes: size}, nil
}

// Permits reports whether images may grow from one size to another, in bytes.
func (g Growth) Permits(old, new int64) bool {
	if g.Relative {
		return float64(new-old)*100 <= float64(old)*g.Percent
	}
	return new-old <= g.Bytes
}

// Limits are the limits on differences between two builds.
type Limits struct {
	Rules     []Rule
	MaxGrowth *Growth // nil for any
}

// Failure is an exceeded limit.
type Failure struct {
	Rule   Rule    `json:"rule"`
	Arch   string  `json:"arch"`
	Kernel *string `json:"kernel"` // nil if the rule is about an architecture
}

// Check sets d.Failures, by rule and then in the order of the kernels and
// architectures.
func (l Limits) Check(d *Diff) {
	d.Failures = []Failure{}
	for _, rule := range rules {
		if !slices.Contains(l.Rules, rule) {
			continue
		}
		for i := range d.Kernels {
			if k := &d.Kernels[i]; rule.broken(k) {
				d.Failures = append(d.Failures, Failure{rule, k.Arch, &k.Name})
			}
		}
		for _, a := range d.Archs {
			if rule == RemovedArchs && a.Change == Removed {
				d.Failures = append(d.Failures, Failure{rule, a.Arch, nil})
			}
		}
	}
	for _, a := range d.Archs {
		if l.MaxGrowth != nil && a.Change != Added && a.Change != Removed && !l.MaxGrowth.Permits(a.OldSize, a.NewSize) {
			d.Failures = append(d.Failures, Failure{MaxGrowth, a.Arch, nil})
		}
	}
}

// broken reports whether the change of a kernel breaks the rule.
func (r Rule) broken(k *ChangedKernel) bool {
	switch r {
	case MoreSpills:
		return k.grew("sgpr_spills", "vgpr_spills")
	case MoreScratch:
		return k.grew("scratch")
	case LessOccupancy:
		return k.Deltas["occupancy"] < 0
	case RemovedKernels:
		return k.Change == Removed
	}
	return false
}
