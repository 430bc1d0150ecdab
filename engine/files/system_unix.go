//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID tells whether two names mean the same file.
type fileID struct{ dev, ino uint64 }

func identify(_ string, fi fs.FileInfo) fileID {
	st := fi.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), uint64(st.Ino)}
}

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(b []byte) error { return unix.Munmap(b) }

// writable says whether an existing file may be overwritten: renaming over it
// would not ask.
func writable(path string) error { return unix.Access(path, unix.W_OK) }
