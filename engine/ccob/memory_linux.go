package ccob

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapFrom is the size from which on a buffer is mapped instead of taken from
// the heap. On first use of fresh memory the kernel costs more than the decoder,
// unless it hands out huge pages; and mapped memory goes back at once.
const mapFrom = 4 << 20

// newMemory returns n zero bytes and a function that gives them back, after which
// they must not be used.
func newMemory(n int64) ([]byte, func(), error) {
	if n < mapFrom {
		return make([]byte, n), func() {}, nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("no %d bytes of memory: %w", n, err)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a wish: without it, it is only slower
	return b, func() { _ = unix.Munmap(b) }, nil
}
