package ccob

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

// newMemory returns n zero bytes and a function that releases them, after which
// they must not be used. Large memory is released immediately.
func newMemory(n int64) ([]byte, func(), error) {
	if n < largeFrom {
		return make([]byte, n), func() {}, nil
	}
	b, err := pages.Map(int(n))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot allocate %d bytes of memory: %w", n, err)
	}
	pages.Large(b)
	return b[:n:n], func() { _ = pages.Unmap(b) }, nil
}

// window is the memory in which the zstd decoder keeps decoded bytes, because
// matches refer to them. The decoder's documentation does not describe it. This
// file and lender rely on two properties, which tests check:
//
//   - Blocks lie in the window one after the other, from the first one on, which
//     is at its beginning (TestWindowIsContiguous). So the memory of the window
//     is known before it is used.
//   - Blocks stay as they are until the window has moved past them (TestLent). So
//     they can be read without a copy for that long.
type window []byte

// windowOf returns the window of size bytes that begins with the first block of
// a decoder. Its bytes may only be advised, not read.
func windowOf(first []byte, size int64) window {
	if len(first) == 0 {
		return nil
	}
	return unsafe.Slice(unsafe.SliceData(first), size)
}

// ready makes the kernel provide the window's memory, until stop is set. The
// kernel zeroes memory hardly faster than a decoder fills it.
func (w window) ready(stop *atomic.Bool) {
	const step = 4 << 20
	for off := 0; off < len(w) && !stop.Load(); off += step {
		if !pages.Populate(w[off:min(off+step, len(w))]) {
			return
		}
	}
}
