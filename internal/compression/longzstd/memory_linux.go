package longzstd

import (
	"os"
	"sync"
	"unsafe"

	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

const (
	hugePage = 2 << 20
	// hugeFrom is the size of a source from which on the tables get huge pages. They
	// spare looks at the page table, but take long to be made zero.
	hugeFrom = 4 << 20
)

// tableMemory is tables and how to give their memory back.
type tableMemory struct {
	t    *tables
	free func()
}

// used are tables of large sources, kept for the next ones: clearing what they will use takes
// much less time than new memory.
var used struct {
	sync.Mutex
	list []tableMemory
}

// mostUsed is how many tables are kept.
const mostUsed = 2

// newTables returns empty tables for a source of size bytes, of which it will use so many
// cells, and a function that gives them back.
func newTables(size, long, short, far int) (*tables, func()) {
	if size < hugeFrom {
		m := mapTables(size, long, short, far)
		return m.t, m.free
	}
	used.Lock()
	n := len(used.list)
	if n == 0 {
		used.Unlock()
		m := mapTables(size, long, short, far)
		return m.t, m.keep
	}
	m := used.list[n-1]
	used.list = used.list[:n-1]
	used.Unlock()
	clear(m.t.long[:long])
	clear(m.t.short[:short])
	clear(m.t.far[:far])
	return m.t, m.keep
}

// keep keeps the memory for the next source, or gives it back.
func (m tableMemory) keep() {
	used.Lock()
	defer used.Unlock()
	if len(used.list) < mostUsed {
		used.list = append(used.list, m)
	} else {
		m.free()
	}
}

// mapTables has the kernel make empty tables. Cells are read, at random, before they are
// written: each fresh page would cost two faults, of which the second interrupts other cores.
func mapTables(size, long, short, far int) tableMemory {
	const most = int(unsafe.Sizeof(tables{}))
	b, err := pages.Map(most + hugePage)
	if err != nil {
		return tableMemory{new(tables), func() {}}
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (hugePage - 1)
	t := (*tables)(unsafe.Pointer(unsafe.SliceData(b[skip:])))
	populate := func(off uintptr, n int) {
		from := (skip + int(off)) &^ (os.Getpagesize() - 1)
		pages.Populate(b[from : skip+int(off)+n])
	}
	if size >= hugeFrom {
		pages.Large(b[skip:])
	}
	populate(unsafe.Offsetof(t.long), long*4)
	populate(unsafe.Offsetof(t.short), short*4)
	populate(unsafe.Offsetof(t.far), far*8)
	return tableMemory{t, func() { _ = pages.Unmap(b) }}
}
