package verb

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// memoryFlag defines --max-memory, a flag of all verbs.
func memoryFlag(flags *flagSet) {
	flags.Func("max-memory", "the `size` of memory for decompressed code and lists, such as 512MiB or 2GiB (default: half of the memory of the machine or container, at most 4 GiB)", func(s string) (err error) {
		flags.memory, err = ParseMemory(s)
		return err
	})
}

// leastMemory is the smallest limit of memory, in bytes.
const leastMemory = 16 << 20

// ParseMemory reads a size of memory: a number of bytes, of KiB, MiB, GiB or TiB. K, M, G
// and T, with or without B, mean the same.
func ParseMemory(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGtTiIbB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, known := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[strings.ToLower(s[len(digits):])]
	if err != nil || !known || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("found %q, expected a size such as 512MiB or 2GiB", s)
	}
	if n <<= shift; n < leastMemory {
		return 0, errors.New("expected at least 16 MiB")
	}
	return n, nil
}
