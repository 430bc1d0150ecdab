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
	MoreSGPRSpills Rule = "sgpr-spills"     // a kernel spills more SGPRs, usually to VGPRs
	MoreVGPRSpills Rule = "vgpr-spills"     // a kernel spills more VGPRs, to scratch
	MoreScratch    Rule = "scratch"         // a kernel uses more scratch
	LessOccupancy  Rule = "occupancy"       // a kernel has fewer waves
	MoreVGPRs      Rule = "vgprs"           // a kernel uses more VGPRs
	MoreAGPRs      Rule = "agprs"           // a kernel uses more AGPRs
	MoreSGPRs      Rule = "sgprs"           // a kernel uses more SGPRs
	MoreLDS        Rule = "lds"             // a kernel uses more LDS
	MoreCode       Rule = "code-size"       // a kernel has more bytes of code
	RemovedKernels Rule = "removed-kernels" // a kernel of an architecture of both builds is missing
	RemovedArchs   Rule = "removed-archs"   // an architecture is missing
	MaxGrowth      Rule = "max-growth"      // the images of an architecture grew too much
)

// rules are the rules that ParseRules accepts, in the order of failures.
var rules = []Rule{
	MoreSpills, MoreSGPRSpills, MoreVGPRSpills, MoreScratch, LessOccupancy, MoreVGPRs, MoreAGPRs, MoreSGPRs, MoreLDS, MoreCode,
	RemovedKernels, RemovedArchs,
}

// values returns the values of kernels that a rule compares, by their names in
// Deltas; none for rules that do not compare values.
func (r Rule) values() []string {
	switch r {
	case MoreSpills:
		return []string{"sgpr_spills", "vgpr_spills"}
	case RemovedKernels, RemovedArchs, MaxGrowth:
		return nil
	}
	return []string{strings.ReplaceAll(string(r), "-", "_")}
}

// ParseRules parses a comma-separated list of rules. Names can have underscores,
// as those of JSON, instead of hyphens. It does not accept MaxGrowth, which has a
// number.
func ParseRules(list string) ([]Rule, error) {
	var found []Rule
	for name := range strings.SplitSeq(list, ",") {
		rule := Rule(strings.ReplaceAll(name, "_", "-"))
		if !slices.Contains(rules, rule) {
			return nil, fmt.Errorf("found %q, expected a list of: %s", name, strings.Join(RuleNames(), ", "))
		}
		found = append(found, rule)
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

// ParseTolerance parses RULE=GROWTH, such as vgprs=8 or code-size=5%: how much
// worse a value of a kernel may become.
func ParseTolerance(s string) (Rule, Growth, error) {
	name, value, ok := strings.Cut(s, "=")
	found, err := ParseRules(name)
	if !ok || err != nil || len(found[0].values()) == 0 {
		return "", Growth{}, fmt.Errorf("found %q, expected VALUE=NUMBER or VALUE=PERCENT%%, such as vgprs=8 or code-size=5%%", s)
	}
	growth, err := ParseGrowth(value)
	return found[0], growth, err
}

// Growth is the permitted growth of images: Bytes or, if Relative is set,
// Percent of the old size.
type Growth struct {
	Bytes    int64
	Percent  float64
	Relative bool
}

// ParseGrowth parses a growth: a size with or without a unit (KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and
// TiB powers of 1024), such as 64KiB, or a percentage such as 5%.
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
	// Tolerances are the permitted changes of the values of a kernel. A rule with a
	// tolerance is checked even if it is not in Rules.
	Tolerances map[Rule]Growth
	// Accepted permits single differences; nil for none.
	Accepted *Accepted
}

// Any reports whether anything is limited.
func (l Limits) Any() bool { return len(l.Rules) > 0 || l.MaxGrowth != nil || len(l.Tolerances) > 0 }

// Failure is an exceeded limit.
type Failure struct {
	Rule   Rule    `json:"rule"`
	Arch   string  `json:"arch"`
	Kernel *string `json:"kernel"` // nil if the rule is about an architecture
	// Delta is the new minus the old value, 0 for rules without values.
	Delta int64 `json:"delta"`
}

// same reports whether two failures are of the same rule and kernel.
func (f Failure) same(g Failure) bool {
	if f.Rule != g.Rule || f.Arch != g.Arch || f.Kernel == nil || g.Kernel == nil {
		return f.Rule == g.Rule && f.Arch == g.Arch && f.Kernel == g.Kernel
	}
	return Key(*f.Kernel) == Key(*g.Kernel)
}

// Check sets d.Failures, by rule and then in the order of the kernels and
// architectures, and d.Accepted and d.Stale.
func (l Limits) Check(d *Diff) {
	d.Failures, d.Accepted, d.Stale = []Failure{}, nil, nil
	for _, rule := range rules {
		tolerance, tolerated := l.Tolerances[rule]
		if !tolerated && !slices.Contains(l.Rules, rule) {
			continue
		}
		for i := range d.Kernels {
			if delta, broken := rule.broken(&d.Kernels[i], tolerance); broken {
				d.Failures = append(d.Failures, Failure{rule, d.Kernels[i].Arch, &d.Kernels[i].Name, delta})
			}
		}
		for _, a := range d.Archs {
			if rule == RemovedArchs && a.Change == Removed {
				d.Failures = append(d.Failures, Failure{Rule: rule, Arch: a.Arch})
			}
		}
	}
	for _, a := range d.Archs {
		if l.MaxGrowth != nil && a.Change != Added && a.Change != Removed && !l.MaxGrowth.Permits(a.OldSize, a.NewSize) {
			d.Failures = append(d.Failures, Failure{Rule: MaxGrowth, Arch: a.Arch, Delta: a.NewSize - a.OldSize})
		}
	}
	if l.Accepted != nil {
		l.Accepted.apply(d)
	}
}

// broken reports whether the change of a kernel breaks the rule, and the change of
// the values.
func (r Rule) broken(k *ChangedKernel, tolerance Growth) (delta int64, broken bool) {
	if r == RemovedKernels {
		return 0, k.Change == Removed
	}
	for _, name := range r.values() {
		change, known := k.Deltas[name]
		if !known {
			continue
		}
		old, worse := *Figure(k.Old, name), change
		if r == LessOccupancy {
			worse = -change
		}
		if worse > 0 && !tolerance.Permits(old, old+worse) {
			delta, broken = delta+change, true
		}
	}
	return delta, broken
}
