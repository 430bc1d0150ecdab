// Package md5lanes computes the MD5 sums of several byte slices at once, in the lanes of vector
// registers. One sum cannot use vectors, because each step depends on the step before. On processors
// without AVX2, it computes one sum after the other.
package md5lanes

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"slices"
)

// Lanes is the number of sums that are computed at once.
const Lanes = 16

// ternary selects instructions of AVX-512, which compute functions of three registers. See parallel.
var ternary bool

// Sum sets sums[i] to the MD5 sum of data[i], for all i. It is fastest for at least Lanes slices of
// similar lengths.
func Sum(sums [][md5.Size]byte, data [][]byte) { sumWith(sums, data, len(data) > 1 && parallel()) }

// sumWith is Sum with or without lanes.
func sumWith(sums [][md5.Size]byte, data [][]byte, vectors bool) {
	order := make([]int, len(data)) // the longest first, so that all lanes end at about the same time
	left := 0                       // bytes
	for i := range order {
		order[i] = i
		left += len(data[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(data[b]), len(data[a])) })
	for len(order) > 0 && !(vectors && worthwhile(len(data[order[0]]), left)) {
		sums[order[0]] = md5.Sum(data[order[0]])
		left -= len(data[order[0]])
		order = order[1:]
	}
	if len(order) > 0 {
		new(lanes).sum(sums, data, order)
	}
}

// worthwhile reports whether lanes are faster than one sum after the other, for slices of all bytes
// together, of which the longest has most bytes: a step of all lanes takes 1.6 to 1.8 times as long as
// a step of one sum.
func worthwhile(most, all int) bool { return all > most+most/4*3 }

// mostBlocks limits the blocks of one call of assembly code, which the scheduler cannot interrupt.
const mostBlocks = 1 << 13

// lane is the slice that a lane hashes.
type lane struct {
	index int    // of the slice
	rest  []byte // the next bytes, whole blocks; empty in a lane without a slice
	tail  []byte // the blocks after rest, with the padding; nil if rest includes them

	padding [2 * md5.BlockSize]byte
}

// start begins slice b, which has an index.
func (l *lane) start(index int, b []byte) {
	whole := len(b) / md5.BlockSize * md5.BlockSize
	l.index, l.rest = index, b[:whole]
	n := copy(l.padding[:], b[whole:])
	clear(l.padding[n:])
	l.padding[n] = 0x80
	const length = 8 // the size of the number of bits, which is the end
	if l.tail = l.padding[:]; n+1+length <= md5.BlockSize {
		l.tail = l.padding[:md5.BlockSize]
	}
	binary.LittleEndian.PutUint64(l.tail[len(l.tail)-length:], uint64(len(b))*8)
	l.advance(0)
}

// advance skips n bytes.
func (l *lane) advance(n int) {
	if l.rest = l.rest[n:]; len(l.rest) == 0 {
		l.rest, l.tail = l.tail, nil
	}
}

// lanes are the slices that are hashed at once.
type lanes struct {
	state [4][Lanes]uint32
	data  [Lanes]*byte
	list  [Lanes]lane
}

// sum sets the sums of the slices with the indexes in order.
func (l *lanes) sum(sums [][md5.Size]byte, data [][]byte, order []int) {
	for i := range l.list[:min(Lanes, len(order))] {
		l.start(i, order[0], data[order[0]])
		order = order[1:]
	}
	for l.step() {
		for i := range l.list {
			if l.data[i] == nil || len(l.list[i].rest) > 0 {
				continue
			}
			sum := &sums[l.list[i].index]
			for k := range l.state {
				binary.LittleEndian.PutUint32(sum[4*k:], l.state[k][i])
			}
			if l.data[i] = nil; len(order) > 0 {
				l.start(i, order[0], data[order[0]])
				order = order[1:]
			}
		}
	}
}

// start begins a slice in lane i.
func (l *lanes) start(i, index int, b []byte) {
	for k, v := range [4]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476} {
		l.state[k][i] = v
	}
	l.list[i].start(index, b)
}

// step hashes as many blocks as every lane has that has a slice. It reports whether there is one.
func (l *lanes) step() bool {
	n := mostBlocks
	var some *byte
	for i := range l.list {
		if rest := l.list[i].rest; len(rest) > 0 {
			some, l.data[i] = &rest[0], &rest[0]
			n = min(n, len(rest)/md5.BlockSize)
		}
	}
	if some == nil {
		return false
	}
	data := l.data
	for i := range data {
		if data[i] == nil {
			data[i] = some // the result is not used
		}
	}
	blocks(&l.state, &data, n)
	for i := range l.list {
		if l.data[i] != nil {
			l.list[i].advance(n * md5.BlockSize)
		}
	}
	return true
}
