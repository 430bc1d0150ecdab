package target

import "github.com/rules-offload/rules_offload/internal/compression/xxh3"

// order is Release.Order for tables in which the distance of buckets grows by growth with each probe.
func order(keys []string, growth uint32) []int {
	buckets := make([]int, 16) // index into keys plus 1
	insert := func(i int) (isNew bool) {
		mask := uint32(len(buckets) - 1)
		b := uint32(xxh3.Hash(keys[i])) & mask
		for step := uint32(1); buckets[b] != 0 && keys[buckets[b]-1] != keys[i]; step += growth {
			b = (b + step) & mask
		}
		isNew, buckets[b] = buckets[b] == 0, i+1
		return isNew
	}
	items := 0
	for i := range keys {
		if insert(i) {
			items++
		}
		if items*4 > len(buckets)*3 {
			old := buckets
			buckets = make([]int, 2*len(old))
			for _, b := range old {
				if b != 0 {
					insert(b - 1)
				}
			}
		}
	}
	order := make([]int, 0, items)
	for _, b := range buckets {
		if b != 0 {
			order = append(order, b-1)
		}
	}
	return order
}
