package longzstd

import (
	"encoding/binary"

	"github.com/klauspost/compress/huff0"
)

// blockSize is the most a block may decompress to: RFC 8878 section 3.1.1.2.4.
const blockSize = 128 << 10

// blockHeaderSize is the size of the header in front of each block.
const blockHeaderSize = 3

const (
	rawBlock        = 0
	rleBlock        = 1
	compressedBlock = 2
)

// A sequence is litLen bytes copied from the source and then matchLen bytes
// copied from offset bytes back.
type sequence struct {
	litLen, matchLen, offset uint32
}

// A block is a piece of the source and how to build it: the sequences cover
// it from start on, and what is left over up to end are literals.
type block struct {
	start, end int
	last       bool
	seqs       []sequence
	longestRun uint32 // no run of literals is longer
}

// A run of literals of this size gets a separate block.
const ownBlock = 8 << 10

// blockWriter turns blocks into their coded form, one behind the other. Its
// state is what the decoder keeps from one block to the next.
type blockWriter struct {
	reps   repeats
	prev   [3]*fseTable // tables a block may repeat; nil: none
	tables [3][2]fseTable
	huff   huff0.Scratch

	mostLeaves int // pieces to think about ending a block after

	// Of the current block:
	lits   []byte
	coded  []codedSequence
	leaves []leaf
	counts [3][64]uint32
}

// A codedSequence is a sequence in terms of its codes and their extra bits.
type codedSequence struct {
	lengths    uint32 // extra bits of both lengths
	offset     uint32 // extra bits of the offset, as many as its code says
	lengthBits uint8
	// codes
	litLen, off, matchLen uint8
}

// repeats are the offsets of the repeat codes: RFC 8878 section 3.1.1.5.
type repeats [3]uint32

// value returns how to write an offset that follows litLen literals, and updates the repeats.
// What comes next is as good as random, so there are no branches.
func (r *repeats) value(offset, litLen uint32) uint32 {
	// Behind no literals, codes 1 to 3 stand for the second offset, the third, and the first less
	// one. Offsets are less than 1<<31: what has that bit is never equal.
	const never = 1 << 31
	first, less, shift := r[0], uint32(never), uint32(0)
	if litLen == 0 {
		first |= never
		less = r[0] - 1
		shift = 1
	}
	v := offset + 3
	if offset == less {
		v = 3
	}
	if offset == r[2] {
		v = 3 - shift
	}
	second, third := r[0], r[1]
	if offset == r[1] {
		v = 2 - shift
		third = r[2]
	}
	if offset == first {
		v = 1
		second, third = r[1], r[2]
	}
	r[0], r[1], r[2] = offset, second, third
	return v
}

func (w *blockWriter) reset() {
	w.reps = repeats{1, 4, 8}
	w.prev = [3]*fseTable{}
	w.huff = huff0.Scratch{Out: w.huff.Out}
}

// append appends the coded form of b, a piece of src, to dst: as one block, or, where a long run
// of literals lies between the sequences, as several. Such a run is often incompressible and best
// left out of the statistics of the rest.
func (w *blockWriter) append(dst, src []byte, b *block) []byte {
	if b.longestRun < ownBlock {
		return w.appendPiece(dst, src, b)
	}
	piece := block{start: b.start}
	first, pos := 0, b.start
	cut := func(end, seqs int) {
		if end > piece.start {
			piece.end, piece.seqs = end, b.seqs[first:seqs]
			dst = w.appendPiece(dst, src, &piece)
			piece.start = end
		}
		first = seqs
	}
	for i := range b.seqs {
		s := &b.seqs[i]
		if s.litLen >= ownBlock {
			cut(pos, i)
			pos += int(s.litLen)
			s.litLen = 0
			cut(pos, i)
		}
		pos += int(s.litLen + s.matchLen)
	}
	if b.end-pos >= ownBlock {
		cut(pos, len(b.seqs))
	}
	piece.end, piece.seqs, piece.last = b.end, b.seqs[first:], b.last
	if piece.end > piece.start || piece.last {
		dst = w.appendPiece(dst, src, &piece)
	}
	return dst
}

// codePiece appends one block, or several where its parts differ enough.
func (w *blockWriter) codePiece(dst, src []byte, b *block) []byte {
	data := src[b.start:b.end]
	if len(data) == 0 {
		return appendBlockHeader(dst, rawBlock, 0, b.last) // a frame of nothing has one
	}
	if b.start > 0 && b.isRun(data) {
		// Old decoders do not take a run as the first block.
		return append(appendBlockHeader(dst, rleBlock, len(data), b.last), data[0])
	}
	if len(b.seqs) == 0 {
		if len(data) >= 4*noiseSample && isNoise(data) {
			return append(appendBlockHeader(dst, rawBlock, len(data), b.last), data...)
		}
		dst, _ = w.appendBlock(dst, data, data, nil, b.last)
		return dst
	}
	w.split(src, b)
	next, first, start, lit := 0, 0, b.start, 0
	for _, k := range w.partition() {
		l := &w.leaves[k]
		last := k == len(w.leaves)-1
		w.counts = w.leaves[next].counts
		for next++; next <= k; next++ {
			add(&w.counts, &w.leaves[next].counts)
		}
		var ok bool
		dst, ok = w.appendBlock(dst, src[start:l.end], w.lits[lit:l.litEnd], w.coded[first:l.seqEnd], b.last && last)
		first, start, lit = l.seqEnd, l.end, l.litEnd
		if ok {
			w.reps = l.reps
		} else if !last {
			// The decoder does not have the repeats that the rest was coded with.
			return w.appendPiece(dst, src, &block{start: start, end: b.end, last: b.last, seqs: b.seqs[first:]})
		}
	}
	return dst
}

func appendBlockHeader(dst []byte, kind, size int, last bool) []byte {
	v := uint32(size)<<3 | uint32(kind)<<1
	if last {
		v |= 1
	}
	return append(dst, byte(v), byte(v>>8), byte(v>>16))
}

// appendBlock appends data as one block of the literals and sequences it is made of. Where
// that saves nothing it appends data as it is and returns false.
func (w *blockWriter) appendBlock(dst, data, lits []byte, coded []codedSequence, last bool) ([]byte, bool) {
	prev := w.prev
	header := len(dst)
	dst = append(dst, 0, 0, 0)
	dst, newTable := w.appendLiterals(dst, lits)
	if len(coded) == 0 {
		dst = append(dst, 0)
	} else {
		dst = w.appendSequences(dst, coded)
	}
	if size := len(dst) - header - blockHeaderSize; size < len(data) {
		appendBlockHeader(dst[:header], compressedBlock, size, last)
		return dst, true
	}
	if newTable {
		// The decoder will not see the new Huffman table.
		w.huff.Reuse = huff0.ReusePolicyNone
	}
	w.prev = prev
	return append(appendBlockHeader(dst[:header], rawBlock, len(data), last), data...), false
}

// isRun reports whether the block is one byte over and over.
func (b *block) isRun(data []byte) bool {
	if len(b.seqs) != 1 || len(data) < 2 {
		return false
	}
	s := b.seqs[0]
	if int(s.litLen+s.matchLen) != len(data) {
		return false
	}
	for len(data) >= 16 && binary.LittleEndian.Uint64(data) == binary.LittleEndian.Uint64(data[8:]) {
		data = data[8:]
	}
	if len(data) >= 16 {
		return false
	}
	for _, c := range data {
		if c != data[0] {
			return false
		}
	}
	return true
}

// add adds the counts of b to those of a.
func add(a, b *[3][64]uint32) {
	for kind := range a {
		for i, n := range b[kind] {
			a[kind][i] += n
		}
	}
}

// Literals section, RFC 8878 section 3.1.1.3.1.
const (
	rawLiterals        = 0
	rleLiterals        = 1
	compressedLiterals = 2
	treelessLiterals   = 3
)

// appendLiterals appends the literals section and reports whether it describes a new Huffman table.
func (w *blockWriter) appendLiterals(dst, lits []byte) ([]byte, bool) {
	if len(lits) >= 32 {
		coded, reused, err := w.compressLiterals(lits)
		switch err {
		case nil:
			kind := compressedLiterals
			if reused {
				kind = treelessLiterals
			}
			dst = appendLiteralsHeader(dst, kind, len(lits), len(coded))
			return append(dst, coded...), !reused
		case huff0.ErrUseRLE:
			dst = appendLiteralsHeader(dst, rleLiterals, len(lits), 0)
			return append(dst, lits[0]), false
		}
	}
	dst = appendLiteralsHeader(dst, rawLiterals, len(lits), 0)
	return append(dst, lits...), false
}

func (w *blockWriter) compressLiterals(lits []byte) ([]byte, bool, error) {
	h := &w.huff
	policy := huff0.ReusePolicyNone
	// The description of a table matters for few literals only.
	if len(lits) < 2<<10 && h.Reuse != huff0.ReusePolicyNone {
		table, data, again, err := huff0.EstimateSizes(lits, h)
		if err != nil {
			return nil, false, err
		}
		if again >= 0 && again <= table+data {
			policy = huff0.ReusePolicyMust
		}
	}
	h.Reuse = policy
	var out []byte
	var reused bool
	var err error
	if len(lits) < 1024 {
		out, reused, err = huff0.Compress1X(lits, h)
	} else {
		out, reused, err = huff0.Compress4X(lits, h)
	}
	h.Reuse = huff0.ReusePolicyAllow
	return out, reused, err
}

const noiseSample = 4096

// isNoise looks at some of the literals to tell whether coding them is not worth trying.
func isNoise(lits []byte) bool {
	var count [256]uint32
	step := (len(lits)/noiseSample - 1) | 1 // odd, as data has columns
	for i := range noiseSample {
		count[lits[i*step]]++
	}
	// The sum of n log2 n is what a sample of this size is short of 12 bits a byte;
	// noise has 7.955 left.
	sum := uint32(0)
	for _, n := range count {
		if n > 0 {
			sum += n * log2Any(n)
		}
	}
	return sum < noiseSample*(12<<fixedShift-(7<<fixedShift+242))
}

func appendLiteralsHeader(dst []byte, kind, size, coded int) []byte {
	switch kind {
	case rawLiterals, rleLiterals:
		switch {
		case size < 32:
			return append(dst, byte(kind|size<<3))
		case size < 4096:
			return binary.LittleEndian.AppendUint16(dst, uint16(kind|1<<2|size<<4))
		default:
			v := uint32(kind | 3<<2 | size<<4)
			return append(dst, byte(v), byte(v>>8), byte(v>>16))
		}
	}
	n := uint64(kind)
	switch {
	case size < 1024: // one stream
		n |= uint64(size)<<4 | uint64(coded)<<14
		return append(dst, byte(n), byte(n>>8), byte(n>>16))
	case size < 16384:
		n |= 2<<2 | uint64(size)<<4 | uint64(coded)<<18
		return append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	default:
		n |= 3<<2 | uint64(size)<<4 | uint64(coded)<<22
		return append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
	}
}

// Ways to tell the decoder a sequence table, RFC 8878 section 3.1.1.3.2.1.
const (
	predefinedMode = 0
	rleMode        = 1
	compressedMode = 2
	repeatMode     = 3
)

// appendSequences appends the sequences section, RFC 8878 section 3.1.1.3.2.
func (w *blockWriter) appendSequences(dst []byte, coded []codedSequence) []byte {
	n := len(coded)
	switch {
	case n < 128:
		dst = append(dst, byte(n))
	case n < 0x7F00:
		dst = append(dst, byte(n>>8)|0x80, byte(n))
	default:
		dst = append(dst, 0xFF, byte(n-0x7F00), byte((n-0x7F00)>>8))
	}
	modes := len(dst)
	dst = append(dst, 0)
	var tables [3]*fseTable
	for kind := range tables {
		var mode int
		dst, mode, tables[kind] = w.chooseTable(dst, kind, uint32(n))
		dst[modes] |= byte(mode << (6 - 2*kind))
	}
	return appendBits(dst, coded, &tables)
}

// chooseTable finds the cheapest table for the n codes of a kind, appends its
// description and returns its mode.
func (w *blockWriter) chooseTable(dst []byte, kind int, n uint32) ([]byte, int, *fseTable) {
	count := w.counts[kind][:]
	top, used := 0, 0
	for s, c := range count {
		if c > 0 {
			top = s
			used++
		}
	}
	prev := w.prev[kind]
	mine := &w.tables[kind][0]
	if mine == prev {
		mine = &w.tables[kind][1]
	}
	mode, table := predefinedMode, &predefined[kind]
	best, ok := table.cost(count, top)
	if !ok {
		best = 1 << 62
	}
	if prev != nil {
		if c, ok := prev.cost(count, top); ok && c <= best {
			mode, table, best = repeatMode, prev, c
		}
	}
	if used == 1 {
		if best <= 8<<fixedShift {
			return w.usePrev(dst, mode, kind, table)
		}
		mine.setRLE(uint8(top))
		w.prev[kind] = nil
		return append(dst, uint8(top)), rleMode, mine
	}
	if best <= 24<<fixedShift { // no table is that small
		return w.usePrev(dst, mode, kind, table)
	}
	log := tableLogFor(n, top, tableLogLimit[kind])
	mine.log, mine.top = log, top
	mine.normalize(count, top, n, log)
	before := len(dst)
	dst = mine.appendCounts(dst)
	c, _ := mine.cost(count, top)
	if c+uint64(len(dst)-before)<<(3+fixedShift) >= best {
		return w.usePrev(dst[:before], mode, kind, table)
	}
	mine.build(log, top)
	w.prev[kind] = mine
	return dst, compressedMode, mine
}

func (w *blockWriter) usePrev(dst []byte, mode, kind int, table *fseTable) ([]byte, int, *fseTable) {
	if mode == predefinedMode {
		w.prev[kind] = nil // it is always there anyway
	}
	return dst, mode, table
}

// appendBits appends the bit stream of the coded sequences. The decoder reads it
// from its end, so the last sequence is written first.
func appendBits(dst []byte, coded []codedSequence, tables *[3]*fseTable) []byte {
	llt, oft, mlt := tables[litLenTable], tables[offsetTable], tables[matchLenTable]

	pos := len(dst)
	need := len(coded)*12 + 24 // at most 26 bits of states, 31 of lengths and 31 of an offset each
	if cap(dst)-pos < need {
		grown := make([]byte, pos, 2*cap(dst)+need)
		copy(grown, dst)
		dst = grown
	}
	buf := dst[:cap(dst)]

	var acc uint64
	var have uint
	last := &coded[len(coded)-1]
	mls, ofs, lls := mlt.start(last.matchLen), oft.start(last.off), llt.start(last.litLen)
	for i := len(coded) - 1; ; {
		// Up to 7 bits are left over, 26 are of states, 31 of lengths.
		c := &coded[i]
		acc |= uint64(c.lengths) << (have & 63)
		have += uint(c.lengthBits)
		if have > 32 {
			binary.LittleEndian.PutUint64(buf[pos:], acc)
			pos += int(have >> 3)
			acc >>= have &^ 7 & 63
			if have >= 64 {
				acc = 0
			}
			have &= 7
		}
		acc |= uint64(c.offset) << (have & 63)
		have += uint(c.off)
		binary.LittleEndian.PutUint64(buf[pos:], acc)
		pos += int(have >> 3)
		acc >>= have &^ 7 & 63
		if have >= 64 {
			acc = 0
		}
		have &= 7
		if i == 0 {
			break
		}
		i--
		c = &coded[i]
		tr := &oft.trans[c.off&63]
		n := (ofs + tr.deltaBits) >> 16 & 31
		acc |= uint64(ofs&(1<<n-1)) << (have & 63)
		have += uint(n)
		ofs = uint32(oft.next[(ofs>>n+tr.deltaFind)%(1<<maxTableLog)])
		tr = &mlt.trans[c.matchLen&63]
		n = (mls + tr.deltaBits) >> 16 & 31
		acc |= uint64(mls&(1<<n-1)) << (have & 63)
		have += uint(n)
		mls = uint32(mlt.next[(mls>>n+tr.deltaFind)%(1<<maxTableLog)])
		tr = &llt.trans[c.litLen&63]
		n = (lls + tr.deltaBits) >> 16 & 31
		acc |= uint64(lls&(1<<n-1)) << (have & 63)
		have += uint(n)
		lls = uint32(llt.next[(lls>>n+tr.deltaFind)%(1<<maxTableLog)])
	}
	for _, f := range [...]struct {
		state uint32
		log   uint8
	}{{mls, mlt.log}, {ofs, oft.log}, {lls, llt.log}} {
		acc |= uint64(f.state&(1<<f.log-1)) << (have & 63)
		have += uint(f.log)
	}
	acc |= 1 << (have & 63) // the mark where a decoder begins
	have++
	binary.LittleEndian.PutUint64(buf[pos:], acc)
	return buf[:pos+int(have+7)>>3]
}
