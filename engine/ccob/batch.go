package ccob

import (
	"crypto/md5"
	"encoding/binary"
	"sync"

	"github.com/rules-offload/rules_offload/internal/compression/md5lanes"
)

// Batch holds the uncompressed bytes of small bundles in files that are read one after the other, such
// as the members of an archive, and computes their hashes several at once. Its zero value is ready for
// the first file.
type Batch struct {
	mu      sync.Mutex
	memory  *[batchMemory]byte
	used    int       // bytes of memory
	held    int       // bytes of memory that are still used after the current file
	readers []*Reader // of the current file
	waiting []waiting
}

// waiting is a bundle whose hash must still be compared.
type waiting struct {
	reader *Reader
	raw    []byte
	failed func(error)
}

const (
	// batchMost is the size of the bytes at which the hashes are computed. More would need more
	// memory, less would leave more lanes unused.
	batchMost   = 3 << 20
	batchMemory = batchMost + wholeMost + decoderRoom
)

// batchBuffers is a pool of memory for batches.
var batchBuffers sync.Pool

// take returns memory for n bytes of a bundle in the current file.
func (b *Batch) take(r *Reader, n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers = append(b.readers, r)
	if b.memory == nil {
		if b.memory, _ = batchBuffers.Get().(*[batchMemory]byte); b.memory == nil {
			b.memory = new([batchMemory]byte)
		}
	}
	if n > len(b.memory)-b.used {
		return make([]byte, 0, n) // other bundles of the file have the rest
	}
	b.used += n
	return b.memory[b.used-n : b.used-n : b.used]
}

// later adds a bundle of the current file to those whose hash must still be compared.
func (b *Batch) later(w waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, w)
	b.held = b.used
}

// Next ends the use of the current file: its bytes are released, and each Reader decodes again what it
// reads from now on. It may compute hashes. Call it only while no call of a Reader is running, and no
// result of Prefix is in use.
func (b *Batch) Next() {
	for _, r := range b.readers {
		r.forget()
	}
	b.readers = b.readers[:0]
	if b.used = b.held; b.held >= batchMost {
		b.compare()
	}
}

// compare compares the hashes of all bundles that wait for it.
func (b *Batch) compare() {
	raw, sums := make([][]byte, len(b.waiting)), make([][md5.Size]byte, len(b.waiting))
	for i, w := range b.waiting {
		raw[i] = w.raw
	}
	md5lanes.Sum(sums, raw)
	for i, w := range b.waiting {
		if err := w.reader.checkHash(binary.LittleEndian.Uint64(sums[i][:])); err != nil {
			w.failed(err)
		}
	}
	clear(b.waiting)
	b.waiting, b.used, b.held = b.waiting[:0], 0, 0
}

// Close ends the use of the current file, computes all hashes, and releases the memory.
func (b *Batch) Close() {
	b.Next()
	b.compare()
	if b.memory != nil {
		batchBuffers.Put(b.memory)
		b.memory = nil
	}
}
