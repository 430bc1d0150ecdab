package target

// Release is the release of LLVM that an operation follows, such as LLVM23. The zero value follows
// none: it writes what every release reads, like LLVM 22, and knows the newest processors.
type Release int

// The releases that differ.
const (
	LLVM22 Release = 22
	LLVM23 Release = 23
	LLVM24 Release = 24
)

// releases are the releases that differ, oldest first.
var releases = [...]Release{LLVM22, LLVM23, LLVM24}

// Nearest returns the newest of the releases that differ that is not newer than r, or the oldest if r is older than
// all of them: LLVM22 for 0, LLVM24 for 30.
func (r Release) Nearest() Release {
	nearest := releases[0]
	for _, known := range releases {
		if known <= r {
			nearest = known
		}
	}
	return nearest
}

// until reports whether r is the given release or an older one. The zero value follows no release.
func (r Release) until(last Release) bool { return r != 0 && r <= last }

// Order returns the order in which the release iterates over a StringMap with the given keys,
// inserted in order, as indices into keys. LLVM stores the entries of a bundle and the requests
// for unbundling in such a map. Of equal keys, only the last is in the result, because it replaces
// the value of the first.
//
// The map is an open hash table that starts with 16 buckets, and doubles if more than three
// quarters are full. The keys are then moved in the order of the old buckets. It probes at growing
// distance up to LLVM 22, and linearly since LLVM 23.
func (r Release) Order(keys []string) []int {
	if r.LinearProbing() {
		return order(keys, 0)
	}
	return order(keys, 1)
}

// LinearProbing reports whether LLVM's hash tables search for a free bucket by linear probing.
func (r Release) LinearProbing() bool { return r >= LLVM23 }
