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

// links returns how many names a file has.
func links(fi fs.FileInfo) uint64 { return uint64(fi.Sys().(*syscall.Stat_t).Nlink) }

// keepOwner gives a new file the owner and group of the one before.
func keepOwner(f *os.File, now, before fs.FileInfo) error {
	n, b := now.Sys().(*syscall.Stat_t), before.Sys().(*syscall.Stat_t)
	if n.Uid == b.Uid && n.Gid == b.Gid {
		return nil
	}
	return f.Chown(int(b.Uid), int(b.Gid))
}

// lockFile reports whether no other process holds the lock of a file, and takes
// it until the file is closed.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
