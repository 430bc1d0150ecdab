package ccob

import "github.com/rules-offload/rules_offload/internal/longzstd"

// Level is a compression level: a choice between speed and size.
type Level = longzstd.Level

// The levels of compression.
const (
	Fast  = longzstd.Fast
	Small = longzstd.Small
)
