package ccob

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newMemory returns n zero bytes and a function that gives them back, after which
// they must not be used. Mapped memory goes back at once.
func newMemory(n int64) ([]byte, func(), error) {
	if n < largeFrom {
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
func largePages(b []byte, n int64) { _ = advise(b, 0, n, unix.MADV_HUGEPAGE) }

// getReady has the kernel provide the n bytes that begin with b, until stop is set.
// Their content stays what it is. The kernel zeroes memory hardly faster than a
// decoder fills it.
func getReady(b []byte, n int64, stop *atomic.Bool) {
	const step = 4 << 20
	for off := int64(0); off < n && !stop.Load(); off += step {
		if advise(b, off, min(step, n-off), unix.MADV_POPULATE_WRITE) != nil {
			return
		}
	}
}

// advise calls madvise for the pages that begin in n bytes from b[off] on, inside the
// slice or behind it.
func advise(b []byte, off, n int64, advice uintptr) error {
	if n <= 0 || len(b) == 0 {
		return nil
	}
	page := uintptr(unix.Getpagesize())
	start := (uintptr(unsafe.Pointer(unsafe.SliceData(b))) + uintptr(off) + page - 1) &^ (page - 1)
	if _, _, e := unix.Syscall(unix.SYS_MADVISE, start, uintptr(n)&^(page-1), advice); e != 0 {
		return e
	}
	return nil
}
