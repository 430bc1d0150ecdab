//go:build unix

package files

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rules-offload/rules_offload/internal/pages"

	"github.com/rules-offload/rules_offload/engine/content"
)

var pageSize = int64(os.Getpagesize())

// joinFrom is the size from which mapping costs less than copying.
const joinFrom = 256 << 10

// reserve allocates size bytes of zeros. Pages that are not written use no
// memory.
func (j *Joined) reserve(size int) error {
	if size < joinFrom {
		j.data = make([]byte, size)
		return nil
	}
	b, err := pages.Map(size)
	if err != nil {
		return fmt.Errorf("cannot allocate %d bytes of memory: %w", size, err)
	}
	pages.Large(b)
	j.memory, j.data = b, b[:size:size]
	return nil
}

// mapPages maps c, which consists of whole pages of a file, at off.
func (j *Joined) mapPages(off int64, c content.Content) error {
	dst := j.memory[off : off+c.Len()]
	in, from := inputOf(c)
	_, err := unix.MmapPtr(int(in.file.Fd()), from, unsafe.Pointer(unsafe.SliceData(dst)), uintptr(len(dst)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fileError(in.name, err)
	}
	m := &mapping{data: dst, in: in, off: from}
	mappings.Store(m, struct{}{})
	j.mappings = append(j.mappings, m)
	return nil
}

// Trim releases the memory of mapped pages. The system reads them from their
// files again on the next use.
func (j *Joined) Trim() {
	for _, m := range j.mappings {
		_ = unix.Madvise(m.data, unix.MADV_DONTNEED)
	}
}

// Close releases the mappings and the memory.
func (j *Joined) Close() error {
	for _, m := range j.mappings {
		m.unmapping()
	}
	memory := j.memory
	*j = Joined{}
	if memory == nil {
		return nil
	}
	// This also unmaps the files mapped over parts of the memory.
	return pages.Unmap(memory)
}
