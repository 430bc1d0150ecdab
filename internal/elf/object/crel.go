package object

import (
	"encoding/binary"
	"math/bits"
)

// crelAddends is the header bit of relocations with addends.
const crelAddends = 4

// crel is one relocation of a compact section.
type crel struct {
	offset      uint64
	symbol, typ uint32
	addend      uint64
}

// decodeCREL decodes a compact relocation section.
func decodeCREL(b []byte, is64 bool) (relocs []crel, ok bool) {
	head, n := binary.Uvarint(b)
	if n <= 0 || head/8 > uint64(len(b)) {
		return nil, false
	}
	b = b[n:]
	shift, flagBits := head%crelAddends, uint(2)
	if head&crelAddends != 0 {
		flagBits = 3
	}
	relocs = make([]crel, head/8)
	var at uint64
	var r crel
	for i := range relocs {
		if len(b) == 0 {
			return nil, false
		}
		first := uint64(b[0])
		b = b[1:]
		at += first >> flagBits
		if first >= 0x80 {
			rest, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, false
			}
			b = b[n:]
			at += rest<<(7-flagBits) - 0x80>>flagBits
		}
		for bit := range flagBits {
			if first&(1<<bit) == 0 {
				continue
			}
			delta, n := sleb(b)
			if n == 0 {
				return nil, false
			}
			b = b[n:]
			switch bit {
			case 0:
				r.symbol += uint32(delta)
			case 1:
				r.typ += uint32(delta)
			case 2:
				r.addend += delta
			}
		}
		if r.offset = at << shift; !is64 {
			r.offset &= 0xffffffff
		}
		relocs[i] = r
	}
	return relocs, true
}

// encodeCREL encodes relocations, with addends, as LLVM does.
func encodeCREL(relocs []crel, is64 bool) []byte {
	mask := uint64(8)
	for i := range relocs {
		mask |= relocs[i].offset
	}
	shift := bits.TrailingZeros64(mask)
	b := binary.AppendUvarint(nil, uint64(len(relocs))*8+crelAddends+uint64(shift))
	var last crel
	for _, r := range relocs {
		delta := r.offset - last.offset
		if !is64 {
			delta &= 0xffffffff
		}
		delta >>= shift
		first := byte(delta << 3)
		if r.symbol != last.symbol {
			first |= 1
		}
		if r.typ != last.typ {
			first |= 2
		}
		if r.addend != last.addend {
			first |= 4
		}
		if delta < 0x10 {
			b = append(b, first)
		} else {
			b = binary.AppendUvarint(append(b, first|0x80), delta>>4)
		}
		if first&1 != 0 {
			b = appendSleb(b, int64(int32(r.symbol-last.symbol)))
		}
		if first&2 != 0 {
			b = appendSleb(b, int64(int32(r.typ-last.typ)))
		}
		if first&4 != 0 {
			addend := int64(r.addend - last.addend)
			if !is64 {
				addend = int64(int32(addend))
			}
			b = appendSleb(b, addend)
		}
		last = r
	}
	return b
}

// sleb decodes a signed LEB128 number and returns its length, or 0 if it is not
// terminated.
func sleb(b []byte) (v uint64, n int) {
	for shift := uint(0); n < len(b) && n < 10; shift += 7 {
		c := b[n]
		n++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return v, n
		}
	}
	return 0, 0
}

func appendSleb(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
