package target

import "github.com/rules-offload/rules_offload/internal/xxh3"

// order is Release.Order for tables in which the distance of buckets grows by growth with each probe.
func order(keys []string, growth uint32) []int {
	const empty = -1
	type slot struct {
		hash uint32
		key  int // index into keys
	}
	newTable := func(n int) []slot {
		t := make([]slot, n)
		for i := range t {
			t[i].key = empty
		}
		return t
	}
	table := newTable(16)
	items := 0
	for i, k := range keys {
		hash := uint32(xxh3.Hash(k))
		b := hash & uint32(len(table)-1)
		for step := uint32(1); table[b].key != empty && keys[table[b].key] != k; step += growth {
			b = (b + step) & uint32(len(table)-1)
		}
		if table[b].key == empty {
			items++
		}
		table[b] = slot{hash, i}
		if items*4 <= len(table)*3 {
			continue
		}
		old := table
		table = newTable(2 * len(old))
		for _, s := range old {
			if s.key == empty {
				continue
			}
			b := s.hash & uint32(len(table)-1)
			for step := uint32(1); table[b].key != empty; step += growth {
				b = (b + step) & uint32(len(table)-1)
			}
			table[b] = s
		}
	}
	order := make([]int, 0, items)
	for _, s := range table {
		if s.key != empty {
			order = append(order, s.key)
		}
	}
	return order
}
