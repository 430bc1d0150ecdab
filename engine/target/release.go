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

// RegistersSYCLBinaries reports whether SYCL's runtime registers an offload binary, not each image.
func (r Release) RegistersSYCLBinaries() bool { return r >= LLVM23 }
