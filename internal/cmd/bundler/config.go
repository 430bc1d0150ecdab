package bundler

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// config combines the options and the environment.
type config struct {
	compressed, talk bool
	compressionLevel int32
	formatVersion    int
}

// configure reads the environment. Options take precedence.
func (r *run) configure() config {
	c := config{compressionLevel: 3, formatVersion: 3}
	if !r.isOne("OFFLOAD_BUNDLER_IGNORE_ENV_VAR") {
		c.talk = r.isOne("OFFLOAD_BUNDLER_VERBOSE")
		c.compressed = r.isOne("OFFLOAD_BUNDLER_COMPRESS")
		if s, ok := r.LookupEnv("OFFLOAD_BUNDLER_COMPRESSION_LEVEL"); ok {
			if n, ok := decimal(s, math.MinInt32, math.MaxInt32); ok {
				c.compressionLevel = int32(n)
			} else {
				fmt.Fprintf(r.Stderr, "Warning: Invalid value for OFFLOAD_BUNDLER_COMPRESSION_LEVEL: %s. Ignoring it.\n", s)
			}
		}
		if s, ok := r.LookupEnv("COMPRESSED_BUNDLE_FORMAT_VERSION"); ok {
			n, ok := decimal(s, 0, math.MaxUint16)
			switch {
			case ok && (n == 2 || n == 3):
				c.formatVersion = int(n)
			case ok:
				fmt.Fprintf(r.Stderr, "Warning: Invalid value for COMPRESSED_BUNDLE_FORMAT_VERSION: %s. Valid values are 2 or 3. Using default version 3.\n", s)
			default:
				fmt.Fprintf(r.Stderr, "Warning: Invalid value for COMPRESSED_BUNDLE_FORMAT_VERSION: %s. Using default version 3.\n", s)
			}
		}
	}
	if r.compress.Count > 0 {
		c.compressed = r.compress.Value
	}
	if r.verbose.Count > 0 {
		c.talk = r.verbose.Value
	}
	if r.level.Count > 0 {
		c.compressionLevel = r.level.Value
	}
	return c
}

// isOne reports whether a variable of the environment is "1".
func (r *run) isOne(name string) bool {
	value, _ := r.LookupEnv(name)
	return value == "1"
}

// decimal parses a number as LLVM does: only digits, with a minus sign if the number may be
// negative.
func decimal(s string, least, most int64) (int64, bool) {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") && least == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && least <= n && n <= most
}
