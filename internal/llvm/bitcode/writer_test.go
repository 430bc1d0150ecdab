package bitcode

import (
	"encoding/binary"

	"github.com/rules-offload/rules_offload/internal/embedding"
)

// streamWriter writes bitstreams for tests, unabbreviated records mostly.
type streamWriter struct {
	data   []byte
	bit    uint // of data's last byte that are used, 0 for all
	width  uint
	blocks []struct {
		start int
		width uint
	}
}

func newStream() *streamWriter {
	w := &streamWriter{width: topWidth}
	w.fixed(magic, 32)
	return w
}

func (w *streamWriter) fixed(v uint64, n uint) {
	for ; n > 0; n-- {
		if w.bit == 0 {
			w.data = append(w.data, 0)
		}
		w.data[len(w.data)-1] |= byte(v&1) << w.bit
		w.bit = (w.bit + 1) % 8
		v >>= 1
	}
}

func (w *streamWriter) vbr(v uint64, n uint) {
	for more := uint64(1) << (n - 1); ; v >>= n - 1 {
		if v < more {
			w.fixed(v, n)
			return
		}
		w.fixed(v&(more-1)|more, n)
	}
}

func (w *streamWriter) align() {
	w.bit = 0
	for len(w.data)%4 != 0 {
		w.data = append(w.data, 0)
	}
}

func (w *streamWriter) enter(id uint64, width uint) {
	w.fixed(abbrevEnterBlock, w.width)
	w.vbr(id, 8)
	w.vbr(uint64(width), 4)
	w.align()
	w.blocks = append(w.blocks, struct {
		start int
		width uint
	}{len(w.data), w.width})
	w.fixed(0, 32)
	w.width = width
}

func (w *streamWriter) end() {
	w.fixed(abbrevEndBlock, w.width)
	w.align()
	b := w.blocks[len(w.blocks)-1]
	w.blocks = w.blocks[:len(w.blocks)-1]
	binary.LittleEndian.PutUint32(w.data[b.start:], uint32(len(w.data)-b.start-4)/4)
	w.width = b.width
}

func (w *streamWriter) record(code uint64, ops ...uint64) {
	w.fixed(abbrevUnabbrev, w.width)
	w.vbr(code, 6)
	w.vbr(uint64(len(ops)), 6)
	for _, v := range ops {
		w.vbr(v, 6)
	}
}

// chars returns s as operands, after others.
func chars(s string, before ...uint64) []uint64 {
	for i := range len(s) {
		before = append(before, uint64(s[i]))
	}
	return before
}

// define defines an abbreviation.
func (w *streamWriter) define(fields ...field) {
	w.fixed(abbrevDefine, w.width)
	w.vbr(uint64(len(fields)), 5)
	for _, f := range fields {
		if f.enc == literal {
			w.fixed(1, 1)
			w.vbr(f.value, 8)
			continue
		}
		w.fixed(0, 1)
		w.fixed(uint64(f.enc), 3)
		if f.enc == fixed || f.enc == vbr {
			w.vbr(f.value, 5)
		}
	}
}

// bytes writes a record of abbreviation id that is an array of 8-bit fields.
func (w *streamWriter) bytes(id uint64, data []byte) {
	w.fixed(id, w.width)
	w.vbr(uint64(len(data)), 6)
	for _, c := range data {
		w.fixed(uint64(c), 8)
	}
}

// blob writes a record of abbreviation id: operands stored in 6-bit chunks, then
// a blob.
func (w *streamWriter) blob(id uint64, data []byte, ops ...uint64) {
	w.fixed(id, w.width)
	for _, v := range ops {
		w.vbr(v, 6)
	}
	w.vbr(uint64(len(data)), 6)
	w.align()
	w.data = append(w.data, data...)
	w.align()
}

// stringsBlob returns the blob of METADATA_STRINGS and where characters start.
func stringsBlob(list ...string) (data []byte, offset uint64) {
	var w streamWriter
	for _, s := range list {
		w.vbr(uint64(len(s)), 6)
	}
	w.align()
	offset = uint64(len(w.data))
	for _, s := range list {
		w.data = append(w.data, s...)
	}
	return w.data, offset
}

// embedding returns a module with one global variable of the given content in
// llvm.embedded.objects. init writes the constant with value number 1, of type
// number 1 (array of i8), in a block with abbreviation IDs of 4 bits.
func embeddings(init func(w *streamWriter)) []byte {
	w := newStream()
	w.enter(moduleBlock, 3)
	w.record(moduleVersion, 2)
	w.enter(typeBlock, 4)
	w.record(typeNumEntry, 2)
	w.record(typeInteger, 8)
	w.record(typeArray, 100, 0)
	w.end()
	w.record(moduleGlobalVar, 0, 1, 1, 3, 2, 9, 0, 0) // value 0, its initializer is value 1
	w.enter(constantsBlock, 4)
	w.record(cstSetType, 1)
	init(w)
	w.end()
	w.enter(metadataBlock, 4)
	w.define(field{literal, metaStrings}, field{vbr, 6}, field{vbr, 6}, field{enc: blob})
	data, off := stringsBlob("x", embedding.OffloadSection)
	w.blob(abbrevFirst, data, 2, off)
	w.record(metaValue, 1, 0) // number 2
	w.record(metaNode, 3, 2)  // number 3
	w.record(metaName, chars(embeddedNode)...)
	w.record(metaNamedNode, 3)
	w.end()
	w.end()
	w.enter(strtabBlock, 3)
	w.define(field{literal, 1}, field{enc: blob})
	w.blob(abbrevFirst, []byte("image"))
	w.end()
	return w.data
}
