package target

import (
	"slices"
	"strings"
	"testing"
)

// The tables are sorted, which lookups require.
func TestTablesAreSorted(t *testing.T) {
	names := map[string][]string{}
	collect := func(name string, n int, at func(int) string) {
		for i := range n {
			names[name] = append(names[name], at(i))
		}
	}
	collect("archGroups", len(archGroups), func(i int) string { return archGroups[i].name })
	collect("vendorNames", len(vendorNames), func(i int) string { return vendorNames[i].name })
	for name, list := range map[string]table[string]{
		"isaAliases": isaAliases, "armSynonyms": armSynonyms,
	} {
		collect(name, len(list), func(i int) string { return list[i].name })
	}
	for name, list := range names {
		if len(list) == 0 || !slices.IsSortedFunc(list, strings.Compare) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%s: %q, expected a sorted list of different names", name, list)
		}
	}
}
