package longzstd

import (
	"encoding/binary"
	"math/bits"
)

// A leaf is a piece of a block as far as it is a possible place to end it.
type leaf struct {
	counts  [3][64]uint32
	reps    repeats // behind it
	seqEnd  int     // of the block's sequences
	litEnd  int     // of its literals
	end     int     // of the source
	literal [256]uint32
}

const (
	maxLeaves  = 16
	fastLeaves = 4 // where time matters more
	// leafSequences is the least number of sequences for which tables of their own can pay.
	leafSequences = 128
)

// split fills lits, coded and leaves from the block's sequences.
func (w *blockWriter) split(src []byte, b *block) {
	const slack = 16 // literals are copied 16 bytes at a time
	if w.lits == nil {
		w.lits = make([]byte, blockSize+slack)
		w.leaves = make([]leaf, maxLeaves)
	}
	if cap(w.coded) < len(b.seqs) {
		w.coded = make([]codedSequence, len(b.seqs)+len(b.seqs)/2)
	}
	w.coded = w.coded[:len(b.seqs)]
	n := min(w.mostLeaves, 1<<(bits.Len(uint(len(b.seqs)/leafSequences|1))-1))
	w.leaves = w.leaves[:n]
	lit, pos, first := 0, b.start, 0
	reps := w.reps
	for k := range w.leaves {
		l := &w.leaves[k]
		l.counts = [3][64]uint32{}
		llc, ofc, mlc := &l.counts[litLenTable], &l.counts[offsetTable], &l.counts[matchLenTable]
		l.seqEnd = len(b.seqs) * (k + 1) / n
		lits := w.lits
		coded := w.coded[first:l.seqEnd]
		for i, s := range b.seqs[first:l.seqEnd] {
			if s.litLen <= slack && pos+slack <= len(src) {
				to := lits[lit:][:slack]
				binary.LittleEndian.PutUint64(to, load64(src, pos))
				binary.LittleEndian.PutUint64(to[8:], load64(src, pos+8))
			} else {
				copy(lits[lit:], src[pos:pos+int(s.litLen)])
			}
			lit += int(s.litLen)
			pos += int(s.litLen) + int(s.matchLen)

			value := reps.value(s.offset, s.litLen)
			m := s.matchLen - minMatch
			lc, mc, oc := litLenCode(s.litLen), matchLenCode(m), uint8(bits.Len32(value)-1)
			lb, mb := litLenBits[lc&63], matchLenBits[mc&63]
			coded[i] = codedSequence{
				lengths:    s.litLen&(1<<lb-1) | m&(1<<mb-1)<<lb,
				offset:     value & (1<<(oc&31) - 1),
				lengthBits: lb + mb,
				litLen:     lc,
				off:        oc,
				matchLen:   mc,
			}
			llc[lc&63]++
			ofc[oc&63]++
			mlc[mc&63]++
		}
		first = l.seqEnd
		if k == n-1 {
			lit += copy(lits[lit:], src[pos:b.end])
			pos = b.end
		}
		l.reps, l.litEnd, l.end = reps, lit, pos
	}
}

// partition returns the leaves at whose ends a block should end, in order: as many as it takes
// for the sum of the blocks' estimated sizes to be the least, halving again and again.
func (w *blockWriter) partition() []int {
	if len(w.leaves) == 1 {
		return []int{0}
	}
	lit := 0
	for k := range w.leaves {
		l := &w.leaves[k]
		l.literal = [256]uint32{}
		for _, c := range w.lits[lit:l.litEnd] {
			l.literal[c]++
		}
		lit = l.litEnd
	}
	ends, _ := w.halve(nil, 0, len(w.leaves), new(leaf))
	return ends
}

// halve appends to ends where the blocks of leaves from to to end, and returns their size in
// bits with fixedShift fraction bits. It adds the counts of the leaves to sum.
func (w *blockWriter) halve(ends []int, from, to int, sum *leaf) ([]int, uint64) {
	if to-from == 1 {
		l := &w.leaves[from]
		add(&sum.counts, &l.counts)
		for i, n := range l.literal {
			sum.literal[i] += n
		}
		return append(ends, from), l.size()
	}
	var both leaf
	before := len(ends)
	ends, a := w.halve(ends, from, (from+to)/2, &both)
	ends, b := w.halve(ends, (from+to)/2, to, &both)
	add(&sum.counts, &both.counts)
	for i, n := range both.literal {
		sum.literal[i] += n
	}
	if one := both.size(); one <= a+b {
		return append(ends[:before], to-1), one
	}
	return ends, a + b
}

// size estimates the size of a block of the leaf's content, in bits with fixedShift fraction bits and
// without the extra bits, which it has in any case.
func (l *leaf) size() uint64 {
	const (
		literalTable  = 16 << (3 + fixedShift) // Huffman tables: so much and so much for each byte value
		literalSymbol = 3 << fixedShift
		codeTable     = 2 << (3 + fixedShift) // the same for tables of codes
		codeSymbol    = 5 << fixedShift
		header        = 16 << (3 + fixedShift) // of the block and its sections
	)
	total := uint64(header)
	bits, used, n := entropy(l.literal[:])
	total += min(bits+literalTable+used*literalSymbol, n<<(3+fixedShift))
	for kind := range l.counts {
		bits, used, _ := entropy(l.counts[kind][:])
		total += bits + codeTable + used*codeSymbol
	}
	return total
}

// entropy returns how many bits, with fixedShift fraction bits, symbols of the given counts take,
// how many different ones there are, and how many in all.
func entropy(count []uint32) (size, used, total uint64) {
	sum := uint64(0)
	for _, n := range count {
		if n > 0 {
			total += uint64(n)
			used++
			sum += uint64(n) * uint64(log2Any(n))
		}
	}
	if total == 0 {
		return 0, 0, 0
	}
	return max(total*uint64(log2Any(uint32(total))), sum) - sum, used, total
}
