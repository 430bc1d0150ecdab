//go:build unix

package joined

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

func pageSize() int64 { return int64(os.Getpagesize()) }

// joinFrom is the size from which mapping costs less than copying.
const joinFrom = 256 << 10

// reserve allocates size bytes of zeros. Pages that are not written use no
// memory.
func (j *Parts) reserve(size int) error {
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
func (j *Parts) mapPages(off int64, c content.Content) error {
	dst := j.memory[off : off+c.Len()]
	file, from := mappedFile(c)
	_, err := unix.MmapPtr(int(file.Fd()), from, unsafe.Pointer(unsafe.SliceData(dst)), uintptr(len(dst)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("cannot map '%s': %w", file.Label, err)
	}
	j.mappings = append(j.mappings, guard.Map(dst, file, from))
	return nil
}

// Trim releases the memory of mapped pages. The system reads them from their
// files again on the next use.
func (j *Parts) Trim() {
	for _, m := range j.mappings {
		_ = unix.Madvise(m.Bytes(), unix.MADV_DONTNEED)
	}
}

// Close releases the mappings and the memory.
func (j *Parts) Close() error {
	for _, m := range j.mappings {
		m.Forget()
	}
	memory := j.memory
	*j = Parts{}
	if memory == nil {
		return nil
	}
	// This also unmaps the files mapped over parts of the memory.
	return pages.Unmap(memory)
}
