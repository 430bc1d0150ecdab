package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapPages(n int) ([]byte, error) {
	page := unix.Getpagesize()
	return unix.Mmap(-1, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
}

func unmapPages(b []byte) error { return unix.Munmap(b) }

func large(b []byte) { _ = advise(b, unix.MADV_HUGEPAGE) }

func discard(b []byte) { _ = advise(b, unix.MADV_DONTNEED) }

func populate(b []byte) bool { return advise(b, unix.MADV_POPULATE_WRITE) == nil }

// advise calls madvise for the pages that begin in b, which need not be Map's.
func advise(b []byte, advice uintptr) error {
	page := uintptr(unix.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first := (start + page - 1) &^ (page - 1)
	end := start + uintptr(len(b))
	if len(b) == 0 || end <= first {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_MADVISE, first, (end-first+page-1)&^(page-1), advice); e != 0 {
		return e
	}
	return nil
}
