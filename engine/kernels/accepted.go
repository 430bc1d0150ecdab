package kernels

import (
	"fmt"
	"strconv"
	"strings"
)

// Accepted is a list of accepted differences, from a text file. Each line permits
// one kernel to break one rule:
//
//	RULE ARCH KERNEL CHANGE
//
// KERNEL is the name in the image; lines of rules about architectures have none.
// CHANGE is the largest accepted change of the value, such as +64; lines of rules
// without values have none. A # begins a comment.
type Accepted struct {
	lines []acceptedLine
}

// An acceptedLine permits what is at most as bad as its failure.
type acceptedLine struct {
	Failure
	number int
	text   string
}

// StaleLine is a line of a list of accepted differences that permits nothing.
type StaleLine struct {
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// ParseAccepted parses a list of accepted differences. Its errors begin with the
// number of the line.
func ParseAccepted(text string) (*Accepted, error) {
	a := new(Accepted)
	number := 0
	for line := range strings.Lines(text) {
		number++
		before, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(before)
		if len(fields) == 0 {
			continue
		}
		f, err := parseFailure(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		a.lines = append(a.lines, acceptedLine{f, number, strings.TrimSpace(line)})
	}
	return a, nil
}

func parseFailure(fields []string) (Failure, error) {
	f := Failure{Rule: Rule(strings.ReplaceAll(fields[0], "_", "-"))}
	form := []string{fields[0], "ARCH", "KERNEL", "CHANGE"}
	switch found, err := ParseRules(fields[0]); {
	case f.Rule == MaxGrowth:
		form = []string{fields[0], "ARCH", "CHANGE"}
	case err != nil || len(found) != 1:
		return f, fmt.Errorf("found %q, expected a rule: %s or %s", fields[0], strings.Join(RuleNames(), ", "), MaxGrowth)
	case f.Rule == RemovedArchs:
		form = form[:2]
	case f.Rule == RemovedKernels:
		form = form[:3]
	}
	if len(fields) != len(form) {
		return f, fmt.Errorf("found %q, expected: %s", strings.Join(fields, " "), strings.Join(form, " "))
	}
	f.Arch = fields[1]
	if f.Arch == noArch {
		f.Arch = ""
	}
	if len(form) > 2 && form[2] == "KERNEL" {
		f.Kernel = &fields[2]
	}
	if last := len(form) - 1; form[last] == "CHANGE" {
		n, err := strconv.ParseInt(fields[last], 10, 64)
		if err != nil {
			return f, fmt.Errorf("found %q, expected a change such as +64", fields[last])
		}
		f.Delta = n
	}
	return f, nil
}

// noArch stands for the empty architecture in a list.
const noArch = "-"

// Line returns the line that accepts the failure, with the demangled name as a
// comment.
func (f Failure) Line() string {
	arch := f.Arch
	if arch == "" {
		arch = noArch
	}
	fields := []string{string(f.Rule), arch}
	comment := ""
	if f.Kernel != nil {
		name := Key(*f.Kernel)
		fields = append(fields, name)
		if demangled := Demangle(*f.Kernel); demangled != *f.Kernel {
			comment = "  # " + demangled
		}
	}
	if f.Rule != RemovedArchs && f.Rule != RemovedKernels {
		fields = append(fields, fmt.Sprintf("%+d", f.Delta))
	}
	return strings.Join(fields, " ") + comment
}

// apply moves failures that the list permits to d.Accepted, and sets d.Stale. Of
// several lines that permit a failure, that with the smallest change is used.
func (a *Accepted) apply(d *Diff) {
	used := make([]bool, len(a.lines))
	failures := d.Failures
	d.Failures = []Failure{}
	for _, f := range failures {
		best, tooSmall := -1, []int{}
		for i, line := range a.lines {
			switch {
			case !line.same(f):
			case abs(line.Delta) < abs(f.Delta):
				tooSmall = append(tooSmall, i)
			case best < 0 || abs(line.Delta) < abs(a.lines[best].Delta):
				best = i
			}
		}
		if best >= 0 {
			used[best] = true
			d.Accepted = append(d.Accepted, f)
			continue
		}
		d.Failures = append(d.Failures, f)
		for _, i := range tooSmall { // to be changed, not deleted
			used[i] = true
		}
	}
	for i, line := range a.lines {
		if !used[i] {
			d.Stale = append(d.Stale, StaleLine{line.number, line.text})
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }
