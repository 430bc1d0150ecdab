package ccob

import (
	"fmt"
	"unsafe"

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
	largePages(b, n)
	return b, func() { _ = unix.Munmap(b) }, nil
}

// largePages asks for large pages for the n bytes that begin with b, used or not. It is
// a wish: without it, things are only slower.
func largePages(b []byte, n int64) {
	if n < mapFrom || len(b) == 0 {
		return
	}
	page := uintptr(unix.Getpagesize())
	start := (uintptr(unsafe.Pointer(unsafe.SliceData(b))) + page - 1) &^ (page - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, uintptr(n)&^(page-1), unix.MADV_HUGEPAGE)
}
