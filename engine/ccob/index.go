package ccob

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	indexFrame  = 0x184D2A5B
	indexMagic  = "CCOBIDX\x00"
	indexRecord = 24
	indexTail   = 8 + 8 + 4 + 4 + 8 + len(indexMagic)
)

// index is the check of the raw bytes in the last, skippable frame.
type index struct {
	raw    int64  // raw size of all frames
	hash   uint64 // of the header
	pieces []indexPiece
}

// indexPiece is a range of the raw bytes and its XXH64.
type indexPiece struct {
	off, size int64
	sum       uint64
}

// append appends the skippable frame.
func (x *index) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, indexFrame)
	dst = le.AppendUint32(dst, uint32(len(x.pieces)*indexRecord+indexTail))
	start := len(dst)
	for _, p := range x.pieces {
		dst = le.AppendUint64(dst, uint64(p.off))
		dst = le.AppendUint64(dst, uint64(p.size))
		dst = le.AppendUint64(dst, p.sum)
	}
	dst = le.AppendUint64(dst, uint64(x.raw))
	dst = le.AppendUint64(dst, x.hash)
	dst = le.AppendUint32(dst, uint32(len(x.pieces)))
	dst = le.AppendUint32(dst, 1)
	dst = le.AppendUint64(dst, xxhash.Sum64(dst[start:]))
	return append(dst, indexMagic...)
}

// frameSize returns how long the skippable frame is.
func (x *index) frameSize() int64 { return int64(8 + len(x.pieces)*indexRecord + indexTail) }

// readIndex returns the index at the end of data, the frames of a bundle or a
// part, or nil if there is none that holds together.
func readIndex(data []byte) *index {
	le := binary.LittleEndian
	if len(data) < 8+indexTail || string(data[len(data)-len(indexMagic):]) != indexMagic {
		return nil
	}
	tail := data[len(data)-indexTail:]
	n := int64(le.Uint32(tail[16:]))
	x := &index{raw: int64(le.Uint64(tail)), hash: le.Uint64(tail[8:])}
	start := int64(len(data)-indexTail) - n*indexRecord
	if start < 8 || le.Uint32(tail[20:]) != 1 || x.raw < 0 ||
		le.Uint32(data[start-8:]) != indexFrame || int64(le.Uint32(data[start-4:])) != int64(len(data))-start ||
		xxhash.Sum64(data[start:len(data)-16]) != le.Uint64(tail[24:]) {
		return nil
	}
	x.pieces = make([]indexPiece, n)
	end := int64(0)
	for i := range x.pieces {
		r := data[start+int64(i)*indexRecord:]
		p := indexPiece{int64(le.Uint64(r)), int64(le.Uint64(r[8:])), le.Uint64(r[16:])}
		if p.off < end || p.off > x.raw || p.size <= 0 || p.size > x.raw-p.off {
			return nil
		}
		end = p.off + p.size
		x.pieces[i] = p
	}
	return x
}

// find returns the piece that begins at off, or nil.
func (x *index) find(off int64) *indexPiece {
	i, ok := slices.BinarySearchFunc(x.pieces, off, func(p indexPiece, off int64) int {
		switch {
		case p.off < off:
			return -1
		case p.off > off:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &x.pieces[i]
}

// check compares raw, all the raw bytes, with the index.
func (x *index) check(raw []byte) error {
	pos := int64(0)
	for _, p := range x.pieces {
		if !allZero(raw[pos:p.off]) {
			return fault(0, "", "raw bytes 0x%x to 0x%x are not zero as the index has them: the data is damaged", pos, p.off)
		}
		if err := p.check(xxhash.Sum64(raw[p.off : p.off+p.size])); err != nil {
			return err
		}
		pos = p.off + p.size
	}
	if !allZero(raw[pos:]) {
		return fault(0, "", "raw bytes from 0x%x on are not zero as the index has them: the data is damaged", pos)
	}
	return nil
}

// check compares sum, that of p's bytes, with p.
func (p *indexPiece) check(sum uint64) error {
	if sum != p.sum {
		return fault(0, "", "raw bytes 0x%x to 0x%x have XXH64 0x%016x, the index has 0x%016x: the data is damaged", p.off, p.off+p.size, sum, p.sum)
	}
	return nil
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
