package longzstd

import "math/bits"

// Literal length and match length codes, RFC 8878 section 3.1.1.3.2.1.1:
// each code stands for a baseline plus a number of extra bits.
var (
	litLenBits = [64]uint8{
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	}
	matchLenBits = [64]uint8{
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	}

	litLenCodes   [64]uint8
	matchLenCodes [128]uint8
)

const (
	minMatch     = 3      // shortest match the format knows
	maxMatch     = 131074 // longest match length code 52 reaches
	maxLitCode   = 35
	maxMatchCode = 52
	maxOffCode   = 31
)

// fillCodes fills the tables of codes.
func fillCodes() {
	fill := func(codes, extra []uint8) {
		v := 0
		for code, n := range extra {
			for end := v + 1<<n; v < end && v < len(codes); v++ {
				codes[v] = uint8(code)
			}
		}
	}
	fill(litLenCodes[:], litLenBits[:maxLitCode+1])
	fill(matchLenCodes[:], matchLenBits[:maxMatchCode+1])
}

// litLenCode returns the code of a literal length.
// From 64 on each power of two has one code and the extra bits are the length's low bits.
func litLenCode(n uint32) uint8 {
	if n < uint32(len(litLenCodes)) {
		return litLenCodes[n]
	}
	return uint8(bits.Len32(n)-1) + 19
}

// matchLenCode returns the code of a match length less minMatch.
func matchLenCode(n uint32) uint8 {
	if n < uint32(len(matchLenCodes)) {
		return matchLenCodes[n]
	}
	return uint8(bits.Len32(n)-1) + 36
}
