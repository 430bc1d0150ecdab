//go:build unix && !linux

package pages

import "golang.org/x/sys/unix"

func mapPages(n int) ([]byte, error) {
	page := unix.Getpagesize()
	return unix.Mmap(-1, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapPages(b []byte) error { return unix.Munmap(b) }

func large([]byte) {}

func discard([]byte) {}

func populate([]byte) bool { return false }
