package bitcode

import "encoding/binary"

// Abbreviation IDs of every block, as defined by the bitstream format.
const (
	abbrevEndBlock   = 0
	abbrevEnterBlock = 1
	abbrevDefine     = 2
	abbrevUnabbrev   = 3
	abbrevFirst      = 4
)

const (
	topWidth  = 2       // width of abbreviation IDs outside blocks
	maxFields = 1 << 16 // fields of all abbreviations in force; LLVM's need about 300
)

// encoding is the encoding of a field of an abbreviated record.
type encoding uint8

const (
	literal encoding = 0 // not stored: the value is in the abbreviation
	fixed   encoding = 1
	vbr     encoding = 2
	array   encoding = 3
	char6   encoding = 4
	blob    encoding = 5
)

// field is one operand of an abbreviation.
type field struct {
	enc   encoding
	value uint64 // of a literal, or the width of fixed and vbr
}

// abbrev is the layout of a record: the code first, then the operands. An array
// is the second last field; the last is the encoding of its elements.
type abbrev []field

type entry uint8

const (
	entryEnd    entry = iota // the end of the block, or an error
	entryBlock               // a block: enter or skip it
	entryRecord              // a record: begin it
)

// cursor iterates over blocks and records. It returns operands one by one, so
// that it allocates no memory in proportion to sizes stated in the stream.
type cursor struct {
	bits
	width   uint
	abbrevs []abbrev
	scopes  []scope
	fields  int // of abbreviations in force, see maxFields

	info   map[uint64][]abbrev // abbreviations for later blocks, by block ID
	inInfo bool                // inside BLOCKINFO, whose abbreviations are stored in info
	infoID uint64

	// The record that begin started: remaining fields, then array elements.
	rest  abbrev
	elem  field
	elems uint64
	after uint64 // where the record ends, if it ends with a blob
}

type scope struct {
	width   uint
	abbrevs []abbrev
	fields  int
	end     uint64
}

// newCursor returns a cursor at bit pos of data, outside all blocks.
func newCursor(data []byte, pos uint64) *cursor {
	return &cursor{
		bits:  bits{data: data, pos: pos, end: uint64(len(data)) * 8},
		width: topWidth,
		info:  map[uint64][]abbrev{},
	}
}

// next finishes the current record and returns what comes next, with the ID of
// the block, or the abbreviation ID of the record.
func (c *cursor) next() (entry, uint64) {
	c.finish()
	for c.err == nil {
		switch id := c.read(c.width); id {
		case abbrevEndBlock:
			c.align()
			c.leave()
			return entryEnd, 0
		case abbrevEnterBlock:
			return entryBlock, c.vbr(8)
		case abbrevDefine:
			c.define()
		default:
			return entryRecord, id
		}
	}
	return entryEnd, 0
}

// block reads the head of a block and returns the width of its abbreviation IDs
// and its end.
func (c *cursor) block() (width uint, end uint64) {
	w := c.vbr(4)
	c.align()
	size := c.read(32) * 32
	if c.err == nil && (w == 0 || w > 32) {
		c.fail("block with abbreviation IDs of %d bits, expected 1 to 32", w)
	}
	if c.err == nil && size > c.end-c.pos {
		c.fail("block of %#x bytes passes the end (%#x bytes left)", size/8, (c.end-c.pos)/8)
	}
	return uint(w), c.pos + size
}

// enter enters the block id that next has found.
func (c *cursor) enter(id uint64) {
	width, end := c.block()
	if c.err != nil {
		return
	}
	c.scopes = append(c.scopes, scope{c.width, c.abbrevs, c.fields, c.end})
	known := c.info[id]
	c.width, c.abbrevs, c.end = width, known[:len(known):len(known)], end
}

// records enters the block id that next has found, and calls visit with the code of each of its
// records. It skips the blocks in it.
func (c *cursor) records(id uint64, visit func(code uint64)) {
	c.enter(id)
	for c.err == nil {
		switch e, id := c.next(); e {
		case entryEnd:
			return
		case entryBlock:
			c.skipBlock()
		case entryRecord:
			visit(c.begin(id))
		}
	}
}

// skipBlock skips the block that next has found.
func (c *cursor) skipBlock() {
	if _, end := c.block(); c.err == nil {
		c.pos = end
	}
}

func (c *cursor) leave() {
	if c.err != nil {
		return
	}
	if len(c.scopes) == 0 {
		c.fail("end of a block without a beginning")
		return
	}
	s := c.scopes[len(c.scopes)-1]
	c.scopes = c.scopes[:len(c.scopes)-1]
	c.width, c.abbrevs, c.end = s.width, s.abbrevs, s.end
	if c.inInfo {
		c.inInfo = false // what BLOCKINFO defined stays in force
	} else {
		c.fields = s.fields
	}
}

// define reads the definition of an abbreviation.
func (c *cursor) define() {
	var a abbrev
	for n := c.vbr(5); n > 0 && c.err == nil; n-- {
		if c.fields++; c.fields > maxFields {
			c.fail("abbreviations of more than %d fields", maxFields)
			return
		}
		if c.read(1) == 1 {
			a = append(a, field{literal, c.vbr(8)})
			continue
		}
		f := field{enc: encoding(c.read(3))}
		switch f.enc {
		case fixed, vbr:
			f.value = c.vbr(5)
			if f.value > 32 {
				c.fail("abbreviation with a field of %d bits, expected at most 32", f.value)
			}
			if f.value == 0 {
				f.enc = literal // no bits: the value is always zero
			}
		case array, char6, blob:
		default:
			c.fail("abbreviation with unknown field encoding %d", f.enc)
		}
		a = append(a, f)
	}
	if c.err != nil {
		return
	}
	for i, f := range a {
		ok := true
		switch {
		case f.enc == array:
			ok = i == len(a)-2 && i > 0 && (a[i+1].enc == fixed || a[i+1].enc == vbr || a[i+1].enc == char6)
		case f.enc == blob:
			ok = i == len(a)-1 && i > 0
		}
		if !ok {
			c.fail("abbreviation with an array or blob in the wrong place")
			return
		}
	}
	if len(a) == 0 {
		c.fail("abbreviation without fields")
		return
	}
	if c.inInfo {
		c.info[c.infoID] = append(c.info[c.infoID], a)
	} else {
		c.abbrevs = append(c.abbrevs, a)
	}
}

// blockInfo reads the BLOCKINFO block that next has found: abbreviations for
// use in later blocks.
func (c *cursor) blockInfo() {
	const setBID = 1
	c.inInfo, c.infoID = true, 0
	c.records(blockInfoBlock, func(code uint64) {
		if code == setBID {
			c.infoID, _ = c.operand()
		}
	})
}

// begin starts the record with abbreviation id and returns its code. The
// operands are read with operand, text or blob; the others are skipped.
func (c *cursor) begin(id uint64) uint64 {
	c.rest, c.elems, c.after = nil, 0, 0
	if id == abbrevUnabbrev {
		code := c.vbr(6)
		c.list(field{vbr, 6})
		return code
	}
	if c.err != nil || id < abbrevFirst || id-abbrevFirst >= uint64(len(c.abbrevs)) {
		c.fail("unknown abbreviation %d (%d are defined)", id, len(c.abbrevs))
		return 0
	}
	a := c.abbrevs[id-abbrevFirst]
	c.rest = a[1:]
	return c.scalar(a[0])
}

// list starts a list of elements. The number of elements is next in the stream.
func (c *cursor) list(elem field) {
	n := c.vbr(6)
	size := elem.value
	if elem.enc == char6 {
		size = 6
	}
	if c.err == nil && n > (c.end-c.pos)/size {
		c.fail("record of %d operands passes the end (%d bits left)", n, c.end-c.pos)
	}
	if c.err == nil {
		c.elem, c.elems = elem, n
	}
}

// advance starts the next field and returns false at the end of the record. It
// leaves a scalar in c.rest[0].
func (c *cursor) advance() bool {
	for c.err == nil && c.elems == 0 {
		if len(c.rest) == 0 {
			return false
		}
		switch c.rest[0].enc {
		case array:
			elem := c.rest[1]
			c.rest = nil
			c.list(elem)
		case blob:
			c.rest = nil
			n := c.vbr(6)
			c.align()
			if left := (c.end - c.pos) / 8; c.err == nil && (n > left || (n+3)&^3 > left) {
				c.fail("blob of %#x bytes passes the end (%#x bytes left)", n, left)
			}
			if c.err == nil {
				c.elem, c.elems = field{fixed, 8}, n
				c.after = c.pos + (n+3)&^3*8
			}
		default:
			return true
		}
	}
	return c.err == nil
}

// scalar reads a single value.
func (c *cursor) scalar(f field) uint64 {
	switch f.enc {
	case fixed:
		return c.read(uint(f.value))
	case vbr:
		return c.vbr(uint(f.value))
	case char6:
		return uint64(char6Table[c.read(6)])
	}
	return f.value
}

const char6Table = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

// operand returns the next operand of the record, or false after the last.
func (c *cursor) operand() (v uint64, ok bool) {
	if !c.advance() {
		return 0, false
	}
	if c.elems > 0 {
		c.elems--
		v = c.scalar(c.elem)
	} else {
		v = c.scalar(c.rest[0])
		c.rest = c.rest[1:]
	}
	return v, c.err == nil
}

// operands fills dst with the next operands and returns their number.
func (c *cursor) operands(dst []uint64) int {
	for i := range dst {
		v, ok := c.operand()
		if !ok {
			return i
		}
		dst[i] = v
	}
	return len(dst)
}

// text returns the remaining operands as bytes: a part of the stream where the
// encoding allows it, else one new buffer.
func (c *cursor) text() []byte {
	var out []byte
	for c.advance() {
		if c.elems == 0 {
			v, _ := c.operand()
			out = append(out, byte(v))
			continue
		}
		n := c.elems
		if c.elem == (field{fixed, 8}) {
			c.elems = 0
			i, shift := c.pos/8, c.pos%8
			c.pos += n * 8
			if shift == 0 && out == nil {
				return c.data[i : i+n : i+n]
			}
			out = appendShifted(out, c.data[i:], shift, n)
			continue
		}
		if out == nil {
			out = make([]byte, 0, n) // list has checked n against the stream
		}
		for ; c.elems > 0 && c.err == nil; c.elems-- {
			out = append(out, byte(c.scalar(c.elem)))
		}
	}
	if c.err != nil {
		return nil
	}
	return out
}

// appendShifted appends n bytes that start shift bits into src.
func appendShifted(out, src []byte, shift, n uint64) []byte {
	if out == nil {
		out = make([]byte, 0, n)
	}
	if shift == 0 {
		return append(out, src[:n]...)
	}
	at := len(out)
	out = append(out, src[:n]...)
	dst := out[at:]
	i := uint64(0)
	for ; i+16 <= uint64(len(src)) && i+8 <= n; i += 8 {
		w := binary.LittleEndian.Uint64(src[i:])>>shift | uint64(src[i+8])<<(64-shift)
		binary.LittleEndian.PutUint64(dst[i:], w)
	}
	for ; i < n; i++ {
		dst[i] = src[i]>>shift | src[i+1]<<(8-shift)
	}
	return out
}

// finish skips the rest of the record.
func (c *cursor) finish() {
	for c.advance() {
		f := c.elem
		n := c.elems
		if n == 0 {
			f, n, c.rest = c.rest[0], 1, c.rest[1:]
		}
		c.elems = 0
		switch f.enc {
		case fixed:
			c.skip(n, f.value)
		case char6:
			c.skip(n, 6)
		case vbr:
			c.skipVBR(n, uint(f.value))
		}
	}
	if c.after != 0 && c.err == nil {
		c.pos = c.after
	}
	c.after = 0
}

// skipVBR skips n numbers stored in chunks of size bits.
func (c *cursor) skipVBR(n uint64, size uint) {
	more := uint64(1) << (size - 1)
	for n > 0 && c.err == nil {
		if c.read(size)&more == 0 {
			n--
		}
	}
}
