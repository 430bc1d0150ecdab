package ccob

import "github.com/rules-offload/rules_offload/internal/compression/longzstd"

// Level is a compression level: a choice between speed and size.
type Level uint8

// The levels of compression.
const (
	// Fast is the default: no larger than libzstd's level 3 with long-distance matching, which is
	// what clang-offload-bundler -compress writes.
	Fast = Level(longzstd.Fast)
	// Small takes about twice as long as Fast, for about the size of libzstd's level 9.
	Small = Level(longzstd.Small)
)

// LevelOf returns the level that stands for a -compression-level of LLVM's tools: Fast up to 6,
// Small above.
func LevelOf(n int) Level { return Level(longzstd.FromNumber(n)) }
