//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID identifies a file: two names with equal IDs are the same file.
type fileID struct{ dev, ino uint64 }

func identify(_ string, fi fs.FileInfo) fileID {
	st := fi.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), uint64(st.Ino)}
}

// inodeOf returns the inode number of a file.
func inodeOf(fi fs.FileInfo) uint64 { return uint64(fi.Sys().(*syscall.Stat_t).Ino) }

// openBlocking opens a file for reading. Unlike os.Open, it does not try to add the file to the runtime's
// poller, which takes eight system calls more and is of no use for regular files.
func openBlocking(path string) (*os.File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(b []byte) error { return unix.Munmap(b) }

// writable returns an error if an existing file may not be overwritten, because
// a rename would not check this.
func writable(path string) error { return unix.Access(path, unix.W_OK) }

// links returns the number of hard links of a file.
func links(fi fs.FileInfo) uint64 { return uint64(fi.Sys().(*syscall.Stat_t).Nlink) }

// keepOwner sets the owner and group of a new file to those of the previous
// one.
func keepOwner(f *os.File, now, before fs.FileInfo) error {
	n, b := now.Sys().(*syscall.Stat_t), before.Sys().(*syscall.Stat_t)
	if n.Uid == b.Uid && n.Gid == b.Gid {
		return nil
	}
	return f.Chown(int(b.Uid), int(b.Gid))
}

// lockFile locks a file until it is closed, and reports whether it did; it
// fails if another process holds the lock.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
