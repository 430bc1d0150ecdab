// Package pages allocates memory from the operating system instead of Go's heap: zero
// bytes that take no memory until they are written, that can have large pages,
// and that are freed immediately. On systems without these features, it uses the heap.
package pages

// Map returns n zero bytes, aligned to a page. Give them back with Unmap.
func Map(n int) ([]byte, error) { return mapPages(n) }

// Unmap gives memory of Map back, all of it. It must not be used any more.
func Unmap(b []byte) error { return unmapPages(b) }

// Large asks for large pages for b, whose use costs the kernel less. Without
// them, things are only slower, so there is no error.
func Large(b []byte) { large(b) }

// Populate has the kernel provide the pages that begin in b before they are
// used. Their content stays what it is. It reports whether the kernel did.
func Populate(b []byte) bool { return populate(b) }
