package longzstd

// A Level chooses between speed and size.
type Level uint8

const (
	// Fast is the default: as fast as can be at a size no larger than libzstd's level 3 with
	// long-distance matching, which is what clang-offload-bundler -compress does.
	Fast Level = iota
	// Small takes about twice as long for a size about that of libzstd's level 9 with
	// long-distance matching, and mostly smaller.
	Small
)

// FromNumber returns the level that stands for a -compression-level of LLVM's tools, where 3 is
// the default: Fast up to 6, where it is still as small as libzstd's, and Small above. Sizes of
// libzstd's levels from about 12 on are out of reach of both.
func FromNumber(n int) Level {
	if n <= 6 {
		return Fast
	}
	return Small
}
