// Package pages allocates memory from the operating system instead of Go's heap: zero
// bytes that take no memory until they are written, that can have large pages,
// and that are freed immediately. On systems without these features, it uses the heap.
package pages

// Map returns n zero bytes, aligned to a page. Give them back with Unmap.
func Map(n int) ([]byte, error) { return mapPages(n) }

// Unmap gives memory of Map back, all of it. It must not be used any more.
func Unmap(b []byte) error { return unmapPages(b) }

// Large requests large pages for b, which are cheaper for the kernel. It returns no error,
// because missing large pages only cost time.
func Large(b []byte) { large(b) }

// Populate makes the kernel provide the pages that begin in b before their first use. It does
// not change their contents. It reports whether the kernel supports this.
func Populate(b []byte) bool { return populate(b) }

// Discard frees the pages in b, of Map, without unmapping them. Their content is
// undefined afterwards. Other than Unmap, it does not lock the memory of the process, so
// that several cores can free pages in parallel.
func Discard(b []byte) { discard(b) }
