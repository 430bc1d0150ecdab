package target

import "github.com/zeebo/xxh3"

// Order returns the order in which LLVM 22 iterates over a StringMap with the
// given keys, inserted in order, as indices into keys. LLVM stores the entries
// of a bundle and the requests for unbundling in such a map. Of equal keys,
// only the last is in the result, because it replaces the value of the first.
//
// The map is an open hash table that starts with 16 buckets, probes at growing
// distance, and doubles if more than three quarters are full. The keys are then
// moved in the order of the old buckets.
func Order(keys []string) []int { return order(keys, 1) }

// Order23 is Order for LLVM 23 and later, whose hash tables use linear probing.
func Order23(keys []string) []int { return order(keys, 0) }

// order is Order for tables in which the distance of buckets grows by growth with each probe.
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
		hash := uint32(xxh3.HashString(k))
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
