// Package sizes reads sizes with units, as people type them.
package sizes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units in bytes, in small letters. A letter alone is a power of 1024.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// most is the largest size in bytes. Every smaller whole number has an exact float64.
const most = 1 << 53

// Parse reads a size in bytes: a number, which may have a fraction, and a unit. KB, MB, GB and TB
// are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024, and so are K, M, G and T. Without
// a unit, the number is one of bytes. Letters may be small or capital, and a space may precede the
// unit.
func Parse(s string) (int64, error) {
	number := strings.TrimRight(s, "kKmMgGtTiIbB")
	unit, known := units[strings.ToLower(s[len(number):])]
	number = strings.TrimSuffix(number, " ")
	if !known || number == "" || strings.Trim(number, "0123456789.") != "" || number[0] == '.' {
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
