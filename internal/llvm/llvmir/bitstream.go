package llvmir

import (
	"encoding/binary"
	"io"
)

// stream writes a bitstream, the container of bitcode. A block begins with its length.
// A first stream, without a writer, computes the lengths for the second one.
type stream struct {
	w       io.Writer // nil to count
	err     error
	buffer  []byte
	word    uint64 // bits that are not yet in buffer
	used    uint   // number of bits in word, less than 64
	written int64  // bytes written from buffer

	width   uint // of abbreviation IDs
	open    []openBlock
	lengths []uint32 // of all blocks, in the order of their offsets
	entered int
}

type openBlock struct {
	number int   // in lengths
	start  int64 // byte after the length
	width  uint  // of abbreviation IDs outside
}

// Abbreviation IDs of all blocks, and the first one that a block can define.
const (
	endBlock    = 0
	enterBlock  = 1
	defineID    = 2
	unabbreved  = 3
	firstAbbrev = 4
)

const bufferSize = 64 << 10

// fixed writes the n low bits of v; n is at most 32.
func (s *stream) fixed(v uint64, n uint) {
	s.word |= v << s.used
	if s.used+n >= 64 {
		s.flush8()
		v >>= 64 - s.used // a shift by less than 64: n is at most 32, so used is at least 32
		s.word, s.used = v, s.used+n-64
		return
	}
	s.used += n
}

// flush8 moves 8 bytes from word to the buffer.
func (s *stream) flush8() {
	if s.w != nil {
		s.buffer = binary.LittleEndian.AppendUint64(s.buffer, s.word)
		if len(s.buffer) >= bufferSize {
			s.flush()
		}
	}
	s.written += 8
}

func (s *stream) flush() {
	if s.w != nil && s.err == nil {
		_, s.err = s.w.Write(s.buffer)
	}
	s.buffer = s.buffer[:0]
}

// vbr writes v in pieces of n bits. The highest bit of a piece is set if another piece follows.
func (s *stream) vbr(v uint64, n uint) {
	more := uint64(1) << (n - 1)
	for v >= more {
		s.fixed(v&(more-1)|more, n)
		v >>= n - 1
	}
	s.fixed(v, n)
}

// align writes zero bits up to a multiple of 4 bytes.
func (s *stream) align() {
	if rest := s.used % 32; rest > 0 {
		s.fixed(0, 32-rest)
	}
}

// position returns the position in the stream, in bytes. Call it after align.
func (s *stream) position() int64 { return s.written + int64(s.used/8) }

// enter begins a block with abbreviation IDs of width bits.
func (s *stream) enter(id uint64, width uint) {
	s.fixed(enterBlock, s.width)
	s.vbr(id, 8)
	s.vbr(uint64(width), 4)
	s.align()
	if s.w == nil {
		s.lengths = append(s.lengths, 0)
	}
	s.fixed(uint64(s.lengths[s.entered]), 32)
	s.open = append(s.open, openBlock{s.entered, s.position(), s.width})
	s.entered++
	s.width = width
}

// end ends the innermost block.
func (s *stream) end() {
	s.fixed(endBlock, s.width)
	s.align()
	last := len(s.open) - 1
	b := s.open[last]
	s.open = s.open[:last]
	s.lengths[b.number] = uint32((s.position() - b.start) / 4)
	s.width = b.width
}

// record writes a record without an abbreviation.
func (s *stream) record(code uint64, operands ...uint64) {
	s.fixed(unabbreved, s.width)
	s.vbr(code, 6)
	s.vbr(uint64(len(operands)), 6)
	for _, v := range operands {
		s.vbr(v, 6)
	}
}

// text writes a record with operands, and then the bytes of a text.
func (s *stream) text(code uint64, text string, operands ...uint64) {
	for i := range len(text) {
		operands = append(operands, uint64(text[i]))
	}
	s.record(code, operands...)
}

// Encodings of fields of an abbreviation.
const (
	fixedField = 1
	arrayField = 3
	blobField  = 5
)

// define defines an abbreviation: a code, then an array of bytes or a blob.
func (s *stream) define(code, field uint64) {
	fields := uint64(2)
	if field == arrayField {
		fields++ // the encoding of its elements
	}
	s.fixed(defineID, s.width)
	s.vbr(fields, 5)
	s.fixed(1, 1)
	s.vbr(code, 8)
	s.fixed(field<<1, 4)
	if field == arrayField {
		s.fixed(fixedField<<1, 4)
		s.vbr(8, 5)
	}
}

// array writes a record with an abbreviation whose field is an array of bytes.
func (s *stream) array(id uint64, data []byte) {
	s.fixed(id, s.width)
	s.vbr(uint64(len(data)), 6)
	s.bytes(data)
}

// blob writes a record with an abbreviation whose field is a blob.
func (s *stream) blob(id uint64, data []byte) {
	s.fixed(id, s.width)
	s.vbr(uint64(len(data)), 6)
	s.align()
	s.bytes(data)
	s.align()
}

// bytes writes bytes at any bit position.
func (s *stream) bytes(data []byte) {
	if s.w == nil { // only the number of bits is required
		bits := uint64(s.used) + uint64(len(data))*8
		s.written += int64(bits / 64 * 8)
		s.word, s.used = 0, uint(bits%64)
		return
	}
	for ; len(data) >= 8; data = data[8:] {
		v := binary.LittleEndian.Uint64(data)
		s.word |= v << s.used
		s.flush8()
		s.word = v >> (64 - s.used) // 0 if all bits were moved
	}
	for _, b := range data {
		s.fixed(uint64(b), 8)
	}
}

// finish writes the remaining bits, padded to a multiple of 4 bytes.
func (s *stream) finish() error {
	if s.used > 0 {
		s.buffer = binary.LittleEndian.AppendUint32(s.buffer, uint32(s.word))
	}
	s.flush()
	return s.err
}
