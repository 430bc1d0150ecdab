package bitcode

import (
	"encoding/binary"
	"fmt"
)

// bits reads little-endian bit fields from data. After the first error, every
// read returns zero and does not change the position, so that callers check err
// once per record instead of once per field.
type bits struct {
	data []byte
	pos  uint64 // of the next bit
	end  uint64 // no bit at or after end is read
	err  error
}

// fail records the first error, placed at the current byte.
func (b *bits) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fault(int64(b.pos/8), "bitcode at byte %#x: %s", b.pos/8, fmt.Sprintf(format, args...))
	}
}

// read returns the next n bits, 0 < n <= 32.
func (b *bits) read(n uint) uint64 {
	if b.err != nil {
		return 0
	}
	if uint64(n) > b.end-b.pos {
		b.fail("ends in the middle of a field: %d bits left, expected %d", b.end-b.pos, n)
		return 0
	}
	i, shift := b.pos>>3, b.pos&7
	b.pos += uint64(n)
	var w uint64
	if i+8 <= uint64(len(b.data)) {
		w = binary.LittleEndian.Uint64(b.data[i:])
	} else {
		for k, c := range b.data[i:] {
			w |= uint64(c) << (8 * k)
		}
	}
	return w >> shift & (1<<n - 1)
}

// vbr returns a number stored in chunks of n bits, 0 < n <= 32. The highest bit
// of each chunk is set if another one follows.
func (b *bits) vbr(n uint) uint64 {
	more := uint64(1) << (n - 1)
	chunk := b.read(n)
	if chunk&more == 0 {
		return chunk
	}
	v := chunk &^ more
	for shift := n - 1; ; shift += n - 1 {
		chunk = b.read(n)
		if shift >= 64 {
			b.fail("number of more than 64 bits")
			return 0
		}
		v |= chunk &^ more << shift
		if chunk&more == 0 {
			return v
		}
	}
}

// align moves to the next multiple of 32 bits.
func (b *bits) align() {
	if p := (b.pos + 31) &^ 31; p <= b.end {
		b.pos = p
	} else {
		b.fail("ends before the next 32-bit boundary")
	}
}

// skip skips n elements of size bits each.
func (b *bits) skip(n, size uint64) {
	if b.err != nil {
		return
	}
	if n > (b.end-b.pos)/size {
		b.fail("%d fields of %d bits pass the end (%d bits left)", n, size, b.end-b.pos)
		return
	}
	b.pos += n * size
}
