package llvmcl

import (
	"slices"
	"strings"
)

// nearest returns the option to suggest for an argument, given without dashes.
func (p *parser) nearest(arg string) string {
	if arg == "" {
		return ""
	}
	options := slices.Clone(p.options)
	slices.SortStableFunc(options, func(a, b *option) int {
		return slices.Index(p.Order, a.name) - slices.Index(p.Order, b.name)
	})
	name, value, _ := strings.Cut(arg, "=")
	var best string
	least := -1
	for _, o := range options {
		if o.shown == nowhere {
			continue
		}
		flag := name
		if o.takes == valueDisallowed {
			flag = arg
		}
		if d := distance(o.name, flag); least < 0 || d < least {
			least, best = d, o.name
			if value != "" && o.takes != valueDisallowed {
				best += "=" + value
			}
		}
	}
	return best
}

// distance returns how many bytes must be inserted, deleted or replaced to make
// b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
