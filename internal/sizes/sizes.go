// Package sizes reads sizes with units, as people type them.
package sizes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit returns a unit in bytes, 0 for an unknown one. A letter alone is a power of 1024.
func unit(name string) float64 {
	switch strings.ToLower(name) {
	case "", "b":
		return 1
	case "k", "kib":
		return 1 << 10
	case "kb":
		return 1e3
	case "m", "mib":
		return 1 << 20
	case "mb":
		return 1e6
	case "g", "gib":
		return 1 << 30
	case "gb":
		return 1e9
	case "t", "tib":
		return 1 << 40
	case "tb":
		return 1e12
	}
	return 0
}

// most is the largest size in bytes. Every smaller whole number has an exact float64.
const most = 1 << 53

// Parse reads a size in bytes: a number, which may have a fraction, and a unit. KB, MB, GB and TB
// are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024, and so are K, M, G and T. Without
// a unit, the number is one of bytes. Letters may be small or capital, and a space may precede the
// unit.
func Parse(s string) (int64, error) {
	number := strings.TrimRight(s, "kKmMgGtTiIbB")
	unit := unit(s[len(number):])
	number = strings.TrimSuffix(number, " ")
	if unit == 0 || number == "" || strings.Trim(number, "0123456789.") != "" || number[0] == '.' {
		return 0, fmt.Errorf("found %q, expected a size such as 4096, 100MB or 1GiB", s)
	}
	n, err := strconv.ParseFloat(number, 64)
	switch bytes := n * unit; {
	case err != nil && n == 0:
		return 0, fmt.Errorf("found %q, expected a size such as 4096, 100MB or 1GiB", s)
	case err != nil || bytes > most:
		return 0, fmt.Errorf("found %q, expected at most %dTiB", s, most>>40)
	case bytes != math.Trunc(bytes) && unit == 1:
		return 0, fmt.Errorf("found %q, expected a whole number of bytes", s)
	default:
		return int64(bytes), nil
	}
}
