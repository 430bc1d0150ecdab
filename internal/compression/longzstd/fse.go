package longzstd

import (
	"math/bits"
)

const (
	maxTableLog = 9 // largest accuracy of any sequence table
	minTableLog = 5
	maxSymbols  = maxMatchCode + 1
)

// symbolTransform is what encoding one symbol needs: see fseTable.encode.
type symbolTransform struct {
	deltaBits uint32 // (bits << 16) - (first state using that many bits)
	deltaFind uint32 // modulo the size of the table
}

// fseTable is one finite state entropy code (RFC 8878 section 4.1) for at most 53 symbols.
// A table of log 0 stands for one symbol that costs no bits (RLE mode).
type fseTable struct {
	log    uint8
	top    int               // largest symbol the table can code
	norm   [maxSymbols]int16 // normalised counts; -1 is "less than one"
	next   [1 << maxTableLog]uint16
	trans  [64]symbolTransform
	single uint8 // the symbol of a table of log 0
}

// setRLE makes t the table that codes sym alone, in no bits.
func (t *fseTable) setRLE(sym uint8) {
	t.log, t.single, t.top = 0, sym, int(sym)
	clear(t.norm[:])
	t.norm[sym] = 1
	t.next[0], t.next[1] = 0, 0
	t.trans[sym] = symbolTransform{}
}

// build derives the coding tables from t.norm[:top+1], which sums to 1<<log.
// The order of the states is the decoder's: RFC 8878 section 4.1.1.
func (t *fseTable) build(log uint8, top int) {
	t.log, t.top = log, top
	size := 1 << log
	var symbolAt [1 << maxTableLog]uint8
	var first [maxSymbols + 1]int32

	// Symbols of probability "less than one" take one cell each from the end.
	high := size - 1
	for s := 0; s <= top; s++ {
		n := int32(t.norm[s])
		if n < 0 {
			symbolAt[high] = uint8(s)
			high--
			n = 1
		}
		first[s+1] = first[s] + n
	}
	step, mask, pos := size>>1+size>>3+3, size-1, 0
	for s := 0; s <= top; s++ {
		for i := int16(0); i < t.norm[s]; i++ {
			symbolAt[pos] = uint8(s)
			pos = (pos + step) & mask
			for pos > high {
				pos = (pos + step) & mask
			}
		}
	}
	at := first
	for i := 0; i < size; i++ {
		s := symbolAt[i]
		t.next[at[s]] = uint16(size + i)
		at[s]++
	}
	for s := 0; s <= top; s++ {
		switch n := t.norm[s]; n {
		case 0:
			t.trans[s] = symbolTransform{}
		case -1, 1:
			t.trans[s] = symbolTransform{uint32(log)<<16 - uint32(size), uint32(first[s] - 1)}
		default:
			most := uint32(log) - uint32(bits.Len16(uint16(n-1))-1)
			t.trans[s] = symbolTransform{most<<16 - uint32(n)<<most, uint32(first[s] - int32(n))}
		}
	}
}

// start returns the state from which a decoder reads sym first.
func (t *fseTable) start(sym uint8) uint32 {
	if t.log == 0 {
		return 0
	}
	tr := t.trans[sym]
	n := (tr.deltaBits + 1<<15) >> 16
	v := n<<16 - tr.deltaBits
	return uint32(t.next[(v>>n+tr.deltaFind)%(1<<maxTableLog)])
}

// normalize scales the counts of symbols 0..top, which sum to total, to
// probabilities that sum to 1<<log, at least 1 for every symbol that occurs.
// At least two symbols occur, and no more than 1<<log.
func (t *fseTable) normalize(count []uint32, top int, total uint32, log uint8) {
	size := int32(1) << log
	left := size
	for s := 0; s <= top; s++ {
		c := count[s]
		if c == 0 {
			t.norm[s] = 0
			continue
		}
		n := int32((uint64(c)<<log + uint64(total)/2) / uint64(total))
		n = max(n, 1)
		t.norm[s] = int16(n)
		left -= n
	}
	// Rounding leaves a few cells too many or too few: give to, or take from,
	// the symbol whose cost changes for the best.
	for left != 0 {
		best, bestGain := -1, int64(-1<<62)
		for s := 0; s <= top; s++ {
			n := int(t.norm[s])
			if n == 0 {
				continue
			}
			var gain int64
			if left > 0 {
				gain = int64(count[s]) * int64(log2Fixed(n+1)-log2Fixed(n))
			} else {
				if n == 1 {
					continue
				}
				gain = -int64(count[s]) * int64(log2Fixed(n)-log2Fixed(n-1))
			}
			if gain > bestGain {
				best, bestGain = s, gain
			}
		}
		if left > 0 {
			t.norm[best]++
			left--
		} else {
			t.norm[best]--
			left++
		}
	}
}

// appendCounts appends the description of the table's probabilities, RFC 8878 section 4.1.1.
func (t *fseTable) appendCounts(dst []byte) []byte {
	var acc uint64
	var n uint
	put := func(v uint32, width uint) {
		acc |= uint64(v) << n
		for n += width; n >= 8; n -= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
		}
	}
	put(uint32(t.log)-minTableLog, 4)
	remaining := int32(1)<<t.log + 1 // one more than what is left to give
	threshold := int32(1) << t.log
	width := uint(t.log) + 1
	for s := 0; s <= t.top && remaining > 1; {
		c := int32(t.norm[s])
		s++
		small := 2*threshold - 1 - remaining // values below need one bit less
		if c < 0 {
			remaining += c
		} else {
			remaining -= c
		}
		v := c + 1
		if v >= threshold {
			v += small
		}
		if v < small {
			put(uint32(v), width-1)
		} else {
			put(uint32(v), width)
		}
		for remaining < threshold && threshold > 1 {
			threshold >>= 1
			width--
		}
		if c != 0 {
			continue
		}
		run := uint32(0)
		for s <= t.top && t.norm[s] == 0 {
			run++
			s++
		}
		for ; run >= 3; run -= 3 {
			put(3, 2)
		}
		put(run, 2)
	}
	if n > 0 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// tableLogFor returns the accuracy to use for total symbols of which the largest is top.
func tableLogFor(total uint32, top, limit int) uint8 {
	log := min(bits.Len32(total-1)-1-2, limit)
	// Enough cells for every symbol that may occur.
	least := min(bits.Len32(total), bits.Len32(uint32(top))+1)
	return uint8(min(max(log, least, minTableLog), limit))
}

// fixedShift is the number of fraction bits of log2Fixed and of costs.
const fixedShift = 8

var log2Table [1<<maxTableLog + 2]uint32

// fillLogs fills log2Table.
func fillLogs() {
	// Integers only, so that every platform makes the same choices.
	for i := 1; i < len(log2Table); i++ {
		whole := bits.Len32(uint32(i)) - 1
		x := uint64(i) << (31 - whole) // in [1, 2) with 31 fraction bits
		frac := uint32(0)
		for range fixedShift {
			x = x * x >> 31
			frac <<= 1
			if x >= 1<<32 {
				x >>= 1
				frac |= 1
			}
		}
		log2Table[i] = uint32(whole)<<fixedShift | frac
	}
}

// log2Fixed returns log2(n) with fixedShift fraction bits for 1 <= n <= 1<<maxTableLog + 1.
func log2Fixed(n int) uint32 { return log2Table[n] }

// log2Any returns log2(n) with fixedShift fraction bits for any n > 0.
func log2Any(n uint32) uint32 {
	shift := max(bits.Len32(n)-maxTableLog, 0)
	return log2Table[n>>shift] + uint32(shift)<<fixedShift
}

// cost returns the size in bits, with fixedShift fraction bits, of coding symbols of
// the given counts with t, or false if t cannot code one of them.
func (t *fseTable) cost(count []uint32, top int) (uint64, bool) {
	if top > t.top {
		return 0, false
	}
	var sum uint64
	for s := 0; s <= top; s++ {
		if count[s] == 0 {
			continue
		}
		n := int(t.norm[s])
		if n == 0 {
			return 0, false
		}
		if n < 0 {
			n = 1
		}
		sum += uint64(count[s]) * uint64(uint32(t.log)<<fixedShift-log2Fixed(n))
	}
	return sum, true
}

// Predefined distributions, RFC 8878 section 3.1.1.3.2.2.
var predefined = [3]fseTable{
	litLenTable: {norm: [maxSymbols]int16{
		4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
	}},
	offsetTable: {norm: [maxSymbols]int16{
		1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
	}},
	matchLenTable: {norm: [maxSymbols]int16{
		1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
	}},
}

// The three kinds of codes in a sequence, in the order their tables are described.
const (
	litLenTable = iota
	offsetTable
	matchLenTable
)

var tableLogLimit = [3]int{9, 8, 9}

func buildPredefined() {
	predefined[litLenTable].build(6, 35)
	predefined[offsetTable].build(5, 28)
	predefined[matchLenTable].build(6, 52)
}
