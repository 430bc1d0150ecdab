package ccob

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	indexFrame   = 0x184D2A5B
	indexVersion = 2
	// indexEnd ends an index. Like every byte of the content of the frame, its bytes are not
	// ASCII, so that an index contains no part of the magic of a compressed bundle.
	indexEnd = "\xd3\xa9\xe4\xb7\x8e\xf1\xca\x95"

	frameHead  = 8  // bytes of the header of a skippable frame
	sumSize    = 10 // bytes of a sum
	lengthSize = 5  // bytes of the length of the index
	indexTail  = sumSize + lengthSize + len(indexEnd)
)

// index is the content of the last, skippable frame, which checks the raw
// bytes.
type index struct {
	raw    int64  // raw size of all frames
	hash   uint64 // of the header
	pieces []indexPiece
	size   int64 // of the skippable frame, after writing or reading it
}

// indexPiece is a range of the raw bytes and its XXH64.
type indexPiece struct {
	off, size int64
	sum       uint64
}

// appendNumber appends n in groups of 6 bits, the lowest first. Bit 6 of a byte is set if
// another byte follows.
func appendNumber(dst []byte, n uint64) []byte {
	for ; n >= 1<<6; n >>= 6 {
		dst = append(dst, 0xc0|byte(n))
	}
	return append(dst, 0x80|byte(n))
}

// appendBits appends the low bits of n, 7 in each byte.
func appendBits(dst []byte, n uint64, size int) []byte {
	for range size {
		dst = append(dst, 0x80|byte(n))
		n >>= 7
	}
	return dst
}

// readBits is the inverse of appendBits.
func readBits(b []byte) (n uint64) {
	for i, c := range b {
		n |= uint64(c&0x7f) << (7 * i)
	}
	return n
}

// append appends the skippable frame.
func (x *index) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, indexFrame)
	dst = append(dst, 0, 0, 0, 0)
	body := len(dst)
	dst = appendNumber(dst, indexVersion)
	dst = appendNumber(dst, uint64(len(x.pieces)))
	end := int64(0)
	for _, p := range x.pieces {
		dst = appendNumber(dst, uint64(p.off-end))
		dst = appendNumber(dst, uint64(p.size))
		dst = appendBits(dst, p.sum, sumSize)
		end = p.off + p.size
	}
	dst = appendNumber(dst, uint64(x.raw-end))
	dst = appendBits(dst, x.hash, sumSize)
	dst = appendBits(dst, xxhash.Sum64(dst[body:]), sumSize)
	x.size = int64(len(dst) + lengthSize + len(indexEnd) - start)
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(x.size-frameHead))
	dst = appendBits(dst, uint64(x.size), lengthSize)
	return append(dst, indexEnd...)
}

// mostIndex returns the usual upper bound of the size of an index with n
// pieces, in bytes.
func mostIndex(n int) int64 { return 64 + 24*int64(n) }

// readIndex returns the index at the end of data, which are the frames of a
// bundle or a part, or nil if there is no consistent index.
func readIndex(data []byte) *index {
	if bytes.HasSuffix(data, []byte(oldIndexEnd)) {
		return readOldIndex(data)
	}
	if len(data) < frameHead+indexTail || !bytes.HasSuffix(data, []byte(indexEnd)) {
		return nil
	}
	le := binary.LittleEndian
	tail := data[len(data)-indexTail:]
	x := &index{size: int64(readBits(tail[sumSize:][:lengthSize]))}
	if x.size < int64(frameHead+indexTail) || x.size > int64(len(data)) {
		return nil
	}
	frame := data[int64(len(data))-x.size:]
	body := frame[frameHead : len(frame)-indexTail]
	if le.Uint32(frame) != indexFrame || int64(le.Uint32(frame[4:])) != x.size-frameHead ||
		xxhash.Sum64(body) != readBits(tail[:sumSize]) {
		return nil
	}
	r := indexReader{body, true}
	if version := r.number(); version != indexVersion {
		return nil
	}
	n := r.number()
	if n > int64(len(r.b))/(2+sumSize) {
		return nil
	}
	x.pieces = make([]indexPiece, n)
	for i := range x.pieces {
		p := indexPiece{off: x.raw, size: 0}
		gap := r.number()
		p.size, p.sum = r.number(), r.sum()
		if gap > math.MaxInt64-p.off || p.size > math.MaxInt64-p.off-gap || p.size == 0 {
			return nil
		}
		p.off += gap
		x.pieces[i], x.raw = p, p.off+p.size
	}
	behind := r.number()
	x.hash = r.sum()
	if !r.ok || len(r.b) > 0 || behind > math.MaxInt64-x.raw {
		return nil
	}
	x.raw += behind
	return x
}

// indexReader reads the numbers of an index.
type indexReader struct {
	b  []byte
	ok bool
}

func (r *indexReader) number() int64 {
	n := uint64(0)
	for shift := 0; shift < 63 && len(r.b) > 0; shift += 6 {
		c := r.b[0]
		r.b = r.b[1:]
		n |= uint64(c&0x3f) << shift
		if c&0x40 == 0 {
			if n > math.MaxInt64 {
				break
			}
			return int64(n)
		}
	}
	r.ok = false
	return 0
}

func (r *indexReader) sum() uint64 {
	if len(r.b) < sumSize {
		r.ok, r.b = false, nil
		return 0
	}
	n := readBits(r.b[:sumSize])
	r.b = r.b[sumSize:]
	return n
}

// Version 1 of the index. Numbers have 8 bytes unless marked u32.
//
//	0  u32 0x184D2A5B, u32 size of the rest
//	8  n records: raw offset, size, XXH64 of these raw bytes
//	   raw size of all frames
//	   hash of the CCOB header, 0 in a part
//	   u32 n, u32 version of the index: 1
//	   XXH64 of the bytes from the first record up to here
//	   "CCOBIDX\x00"
const (
	oldIndexEnd    = "CCOBIDX\x00"
	oldIndexRecord = 24
	oldIndexTail   = 8 + 8 + 4 + 4 + 8 + len(oldIndexEnd)
)

// readOldIndex is readIndex for an index of version 1.
func readOldIndex(data []byte) *index {
	le := binary.LittleEndian
	if len(data) < frameHead+oldIndexTail {
		return nil
	}
	tail := data[len(data)-oldIndexTail:]
	n := int64(le.Uint32(tail[16:]))
	start := int64(len(data)-oldIndexTail) - n*oldIndexRecord
	x := &index{raw: int64(le.Uint64(tail)), hash: le.Uint64(tail[8:]), size: int64(len(data)) - start + frameHead}
	if start < frameHead || le.Uint32(tail[20:]) != 1 || x.raw < 0 ||
		le.Uint32(data[start-8:]) != indexFrame || int64(le.Uint32(data[start-4:])) != int64(len(data))-start ||
		xxhash.Sum64(data[start:len(data)-16]) != le.Uint64(tail[24:]) {
		return nil
	}
	x.pieces = make([]indexPiece, n)
	end := int64(0)
	for i := range x.pieces {
		r := data[start+int64(i)*oldIndexRecord:]
		p := indexPiece{int64(le.Uint64(r)), int64(le.Uint64(r[8:])), le.Uint64(r[16:])}
		if p.off < end || p.off > x.raw || p.size <= 0 || p.size > x.raw-p.off {
			return nil
		}
		end = p.off + p.size
		x.pieces[i] = p
	}
	return x
}

// endsLikeIndex reports whether data ends like an index, except for a few bits.
func endsLikeIndex(data []byte) bool {
	if len(data) < len(indexEnd) {
		return false
	}
	end := binary.LittleEndian.Uint64(data[len(data)-len(indexEnd):])
	for _, s := range []string{indexEnd, oldIndexEnd} {
		if bits.OnesCount64(end^binary.LittleEndian.Uint64([]byte(s))) <= 8 {
			return true
		}
	}
	return false
}

// head returns the size of the first piece, the header of the plain bundle, or 0 if no piece
// begins at 0.
func (x *index) head() int64 {
	if len(x.pieces) == 0 || x.pieces[0].off != 0 {
		return 0
	}
	return x.pieces[0].size
}

// find returns the piece that begins at off, or nil.
func (x *index) find(off int64) *indexPiece {
	i, ok := slices.BinarySearchFunc(x.pieces, off, func(p indexPiece, off int64) int { return cmp.Compare(p.off, off) })
	if !ok {
		return nil
	}
	return &x.pieces[i]
}

// from returns a check of the raw bytes from off, which is the start of a piece
// or of the raw bytes.
func (x *index) from(off int64) *indexCheck {
	next := 0
	if off > 0 {
		next, _ = slices.BinarySearchFunc(x.pieces, off, func(p indexPiece, off int64) int { return cmp.Compare(p.off, off) })
	}
	return &indexCheck{index: x, pos: off, next: next}
}

// check compares raw, all of the raw bytes, with the index.
func (x *index) check(raw []byte) error {
	c := indexCheck{index: x}
	if err := c.write(raw); err != nil {
		return err
	}
	return c.end()
}

// indexCheck compares raw bytes, in order, with an index.
type indexCheck struct {
	index *index
	pos   int64 // of the next byte
	next  int   // the piece that contains or follows pos
	sum   *xxhash.Digest
}

// write checks the next bytes.
func (c *indexCheck) write(b []byte) error {
	for len(b) > 0 {
		if c.next == len(c.index.pieces) {
			return c.zeros(b)
		}
		p := &c.index.pieces[c.next]
		if n := min(p.off-c.pos, int64(len(b))); n > 0 {
			if err := c.zeros(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		n := min(p.off+p.size-c.pos, int64(len(b)))
		if c.sum == nil {
			c.sum = xxhash.New()
		}
		c.sum.Write(b[:n])
		b = b[n:]
		if c.pos += n; c.pos == p.off+p.size {
			if err := p.check(c.sum.Sum64()); err != nil {
				return err
			}
			c.sum.Reset()
			c.next++
		}
	}
	return nil
}

func (c *indexCheck) zeros(b []byte) error {
	if !allZero(b) {
		return fault(0, Other, "raw bytes 0x%x to 0x%x are not zero, as the index states: the data is damaged", c.pos, c.pos+int64(len(b)))
	}
	c.pos += int64(len(b))
	return nil
}

// end is called after the last byte.
func (c *indexCheck) end() error {
	if c.pos != c.index.raw {
		return tooShort(c.pos, c.index.raw)
	}
	return nil
}

// check compares sum, the sum of p's bytes, with p.
func (p *indexPiece) check(sum uint64) error {
	if sum != p.sum {
		return fault(0, Other, "raw bytes 0x%x to 0x%x have XXH64 0x%016x, the index has 0x%016x: the data is damaged", p.off, p.off+p.size, sum, p.sum)
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
