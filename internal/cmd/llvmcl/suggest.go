package llvmcl

import (
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
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
		if d := nearest.Distance(o.name, flag); least < 0 || d < least {
			least, best = d, o.name
			if value != "" && o.takes != valueDisallowed {
				best += "=" + value
			}
		}
	}
	return best
}
