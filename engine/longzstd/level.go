package longzstd

// A Level chooses between speed and size.
type Level uint8

const (
	// Fast is the default: as fast as can be at a size no larger than libzstd's level 3 with
	// long-distance matching, which is what clang-offload-bundler -compress does.
	Fast Level = iota
	// Small takes up to twice as long for a size no larger than libzstd's level 9 with
	// long-distance matching.
	Small
)

// FromNumber returns the level that stands for a -compression-level of LLVM's tools, where 3 is
// the default: the fastest level that is no larger than libzstd's level n on code objects.
func FromNumber(n int) Level {
	if n <= 5 {
		return Fast
	}
	return Small
}
