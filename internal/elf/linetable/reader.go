package linetable

import (
	"bytes"
	"encoding/binary"
)

// reader reads numbers and texts. After the end of its data, failed is set and values are 0.
type reader struct {
	data   []byte
	at     int
	failed bool
}

// take returns the next n bytes.
func (r *reader) take(n uint64) []byte {
	if r.failed || n > uint64(len(r.data)-r.at) {
		r.failed = true
		return nil
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// unitLength reads the length of a unit, and whether it is 64-bit DWARF.
func (r *reader) unitLength() (length uint64, wide bool) {
	if length = uint64(r.u32()); length == 0xffffffff {
		return r.u64(), true
	}
	return length, false
}

// offset reads an offset of 32-bit or 64-bit DWARF.
func (r *reader) offset(wide bool) uint64 {
	if wide {
		return r.u64()
	}
	return uint64(r.u32())
}

// uleb reads an unsigned LEB128. Bits after the 64th are lost.
func (r *reader) uleb() uint64 {
	n := uint64(0)
	for shift := 0; ; shift += 7 {
		b := r.u8()
		n |= uint64(b&0x7f) << min(shift, 64)
		if b < 0x80 {
			return n
		}
	}
}

// sleb reads a signed LEB128.
func (r *reader) sleb() int64 {
	n := int64(0)
	for shift := 0; ; {
		b := r.u8()
		n |= int64(b&0x7f) << min(shift, 64)
		if shift += 7; b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				n |= -1 << shift
			}
			return n
		}
	}
}

// text reads a text up to its terminating 0.
func (r *reader) text() []byte {
	n := bytes.IndexByte(r.data[r.at:], 0)
	if n < 0 {
		r.failed = true
		return nil
	}
	s := r.take(uint64(n) + 1)
	return s[:max(0, len(s)-1)]
}

// maxText is the largest number of bytes of a text in another section: many entries can refer to a
// section without a 0.
const maxText = 1 << 14

// textAt returns the text at an offset of a section, at most maxText bytes, or nil outside of it.
func textAt(section []byte, at uint64) []byte {
	if at >= uint64(len(section)) {
		return nil
	}
	s, _, _ := bytes.Cut(section[at:min(at+maxText, uint64(len(section)))], []byte{0})
	return s
}
