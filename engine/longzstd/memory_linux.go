package longzstd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage = 2 << 20
	// hugeFrom is the size of a source from which on the tables get huge pages. They
	// spare looks at the page table, but take long to be made zero.
	hugeFrom = 4 << 20
)

// newTables returns empty tables for a source of size bytes, of which it will use so many
// cells, and a function that gives them back. Cells are read, at random, before they are
// written: each fresh page would cost two faults, of which the second interrupts other cores.
func newTables(size, long, short, far int) (*tables, func()) {
	const most = int(unsafe.Sizeof(tables{}))
	b, err := unix.Mmap(-1, 0, most+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return new(tables), func() {}
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (hugePage - 1)
	t := (*tables)(unsafe.Pointer(unsafe.SliceData(b[skip:])))
	// All of this is a wish.
	populate := func(off uintptr, n int) {
		from := (skip + int(off)) &^ (unix.Getpagesize() - 1)
		_ = unix.Madvise(b[from:skip+int(off)+n], unix.MADV_POPULATE_WRITE)
	}
	if size >= hugeFrom {
		_ = unix.Madvise(b[skip:], unix.MADV_HUGEPAGE)
	}
	populate(unsafe.Offsetof(t.long), long*4)
	populate(unsafe.Offsetof(t.short), short*4)
	populate(unsafe.Offsetof(t.far), far*8)
	return t, func() { _ = unix.Munmap(b) }
}
