package longzstd

import (
	"encoding/binary"
	"math/bits"

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
}

// blockWriter turns blocks into their coded form, one behind the other. Its
// state is what the decoder keeps from one block to the next.
type blockWriter struct {
	reps repeats
	prev [3]*fseTable // tables a block may repeat; nil: none
	mine [3][2]fseTable
	huff huff0.Scratch
	lits []byte

	codes  [3][]uint8
	extras []uint64 // offset value << 32 | litLen << 16 | matchLen-minMatch, as far as extra bits need
	counts [3][maxSymbols]uint32
}

// repeats are the offsets of the repeat codes: RFC 8878 section 3.1.1.5.
type repeats [3]uint32

// value returns how to write an offset that follows litLen literals, and updates the repeats.
func (r *repeats) value(offset, litLen uint32) uint32 {
	if litLen != 0 {
		switch offset {
		case r[0]:
			return 1
		case r[1]:
			r[0], r[1] = r[1], r[0]
			return 2
		case r[2]:
			r[0], r[1], r[2] = r[2], r[0], r[1]
			return 3
		}
	} else {
		switch offset {
		case r[1]:
			r[0], r[1] = r[1], r[0]
			return 1
		case r[2]:
			r[0], r[1], r[2] = r[2], r[0], r[1]
			return 2
		case r[0] - 1:
			r[0], r[1], r[2] = offset, r[0], r[1]
			return 3
		}
	}
	r[0], r[1], r[2] = offset, r[0], r[1]
	return offset + 3
}

func (w *blockWriter) reset() {
	w.reps = repeats{1, 4, 8}
	w.prev = [3]*fseTable{}
	w.huff = huff0.Scratch{Out: w.huff.Out}
}

// append appends the coded form of b, a piece of src, to dst.
func (w *blockWriter) append(dst, src []byte, b *block) []byte {
	data := src[b.start:b.end]
	header := len(dst)
	kind, size := rawBlock, len(data)
	if len(data) == 0 {
		// A frame of nothing has one empty block.
		dst = append(dst, 0, 0, 0)
	} else if b.start > 0 && b.isRun(data) {
		// Old decoders do not take a run as the first block.
		dst = append(dst, 0, 0, 0, data[0])
		kind = rleBlock
	} else {
		reps, prev := w.reps, w.prev
		var ok bool
		dst, ok = w.appendCompressed(append(dst, 0, 0, 0), data, b.seqs)
		if ok {
			kind, size = compressedBlock, len(dst)-header-blockHeaderSize
		} else {
			dst = append(dst[:header+blockHeaderSize], data...)
			w.reps, w.prev = reps, prev
		}
	}
	v := uint32(size)<<3 | uint32(kind)<<1
	if b.last {
		v |= 1
	}
	dst[header], dst[header+1], dst[header+2] = byte(v), byte(v>>8), byte(v>>16)
	return dst
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

// appendCompressed appends the content of a compressed block, or returns false if that
// is no smaller than data. Then the state is not what it was.
func (w *blockWriter) appendCompressed(dst, data []byte, seqs []sequence) ([]byte, bool) {
	start := len(dst)
	lits := data
	if len(seqs) > 0 {
		lits = w.lits[:0]
		pos := 0
		for i := range seqs {
			s := &seqs[i]
			end := pos + int(s.litLen)
			lits = append(lits, data[pos:end]...)
			pos = end + int(s.matchLen)
		}
		lits = append(lits, data[pos:]...)
		w.lits = lits
	}
	dst, newTable := w.appendLiterals(dst, lits)
	if len(seqs) == 0 {
		dst = append(dst, 0)
	} else {
		dst = w.appendSequences(dst, seqs)
	}
	if len(dst)-start < len(data) {
		return dst, true
	}
	if newTable {
		// The decoder will not see the new Huffman table.
		w.huff.Reuse = huff0.ReusePolicyNone
	}
	return dst, false
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
	fresh := h.Reuse == huff0.ReusePolicyNone
	table, data, again, err := huff0.EstimateSizes(lits, h)
	if err != nil {
		return nil, false, err
	}
	h.Reuse = huff0.ReusePolicyNone
	if !fresh && again >= 0 && again <= table+data {
		h.Reuse = huff0.ReusePolicyMust
	}
	var out []byte
	var reused bool
	if len(lits) < 1024 {
		out, reused, err = huff0.Compress1X(lits, h)
	} else {
		out, reused, err = huff0.Compress4X(lits, h)
	}
	h.Reuse = huff0.ReusePolicyAllow
	return out, reused, err
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
func (w *blockWriter) appendSequences(dst []byte, seqs []sequence) []byte {
	n := len(seqs)
	switch {
	case n < 128:
		dst = append(dst, byte(n))
	case n < 0x7F00:
		dst = append(dst, byte(n>>8)|0x80, byte(n))
	default:
		dst = append(dst, 0xFF, byte(n-0x7F00), byte((n-0x7F00)>>8))
	}
	w.codeSequences(seqs)
	modes := len(dst)
	dst = append(dst, 0)
	var tables [3]*fseTable
	for kind := range tables {
		var mode int
		dst, mode, tables[kind] = w.chooseTable(dst, kind, uint32(n))
		dst[modes] |= byte(mode << (6 - 2*kind))
	}
	return w.appendBits(dst, n, &tables)
}

// codeSequences fills codes, extras and counts from seqs.
func (w *blockWriter) codeSequences(seqs []sequence) {
	n := len(seqs)
	if cap(w.extras) < n {
		size := n + n/2
		w.extras = make([]uint64, size)
		for i := range w.codes {
			w.codes[i] = make([]uint8, size)
		}
	}
	for i := range w.counts {
		clear(w.counts[i][:])
	}
	ll, of, ml, extras := w.codes[litLenTable][:n], w.codes[offsetTable][:n], w.codes[matchLenTable][:n], w.extras[:n]
	llc, ofc, mlc := &w.counts[litLenTable], &w.counts[offsetTable], &w.counts[matchLenTable]
	reps := w.reps
	for i := range seqs {
		s := &seqs[i]
		value := reps.value(s.offset, s.litLen)
		l, m, o := litLenCode(s.litLen), matchLenCode(s.matchLen-minMatch), uint8(bits.Len32(value)-1)
		ll[i], ml[i], of[i] = l, m, o
		llc[l%maxSymbols]++
		mlc[m%maxSymbols]++
		ofc[o%maxSymbols]++
		extras[i] = uint64(value)<<32 | uint64(s.litLen&0xffff)<<16 | uint64((s.matchLen-minMatch)&0xffff)
	}
	w.reps = reps
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
	mine := &w.mine[kind][0]
	if mine == prev {
		mine = &w.mine[kind][1]
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

// appendBits appends the bit stream of n coded sequences. The decoder reads it
// from its end, so the last sequence is written first.
func (w *blockWriter) appendBits(dst []byte, n int, tables *[3]*fseTable) []byte {
	llt, oft, mlt := tables[litLenTable], tables[offsetTable], tables[matchLenTable]
	ll, of, ml, extras := w.codes[litLenTable][:n], w.codes[offsetTable][:n], w.codes[matchLenTable][:n], w.extras[:n]

	pos := len(dst)
	need := n*13 + 16 // at most 27 bits of states and 64 extra bits each
	if cap(dst)-pos < need {
		grown := make([]byte, pos, 2*cap(dst)+need)
		copy(grown, dst)
		dst = grown
	}
	buf := dst[:cap(dst)]

	var acc uint64
	var have uint
	i := n - 1
	mls, ofs, lls := mlt.start(ml[i]), oft.start(of[i]), llt.start(ll[i])
	for {
		e := extras[i]
		lb, mb, ob := uint(litLenBits[ll[i]]), uint(matchLenBits[ml[i]]), uint(of[i])
		acc |= (e >> 16 & (1<<lb - 1)) << (have & 63)
		have += lb
		acc |= (e & (1<<mb - 1)) << (have & 63)
		have += mb
		// Up to 7 bits were left over, 27 are of states, 32 are of lengths.
		if have > 32 {
			binary.LittleEndian.PutUint64(buf[pos:], acc)
			pos += int(have >> 3)
			acc >>= have &^ 7 & 63
			if have >= 64 {
				acc = 0
			}
			have &= 7
		}
		acc |= (e >> 32 & (1<<ob - 1)) << (have & 63)
		have += ob
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
		tr := oft.trans[of[i]]
		nb := uint((ofs + tr.deltaBits) >> 16)
		acc |= uint64(ofs&(1<<nb-1)) << have
		have += nb
		ofs = uint32(oft.next[int32(ofs>>nb)+tr.deltaFind])
		tr = mlt.trans[ml[i]]
		nb = uint((mls + tr.deltaBits) >> 16)
		acc |= uint64(mls&(1<<nb-1)) << have
		have += nb
		mls = uint32(mlt.next[int32(mls>>nb)+tr.deltaFind])
		tr = llt.trans[ll[i]]
		nb = uint((lls + tr.deltaBits) >> 16)
		acc |= uint64(lls&(1<<nb-1)) << have
		have += nb
		lls = uint32(llt.next[int32(lls>>nb)+tr.deltaFind])
	}
	final := func(state uint32, log uint8) {
		acc |= uint64(state&(1<<log-1)) << have
		have += uint(log)
	}
	final(mls, mlt.log)
	final(ofs, oft.log)
	final(lls, llt.log)
	acc |= 1 << have // the mark where a decoder begins
	have++
	binary.LittleEndian.PutUint64(buf[pos:], acc)
	return buf[:pos+int(have+7)>>3]
}
