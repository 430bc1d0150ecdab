//go:build !unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// fileID identifies a file: two names with equal IDs are the same file.
type fileID string

func identify(path string, _ fs.FileInfo) fileID {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return fileID(strings.ToLower(path))
}

// inodeOf returns noInode: files have no numbers here.
func inodeOf(fs.FileInfo) uint64 { return noInode }

// openBlocking opens a file for reading.
func openBlocking(path string) (*os.File, error) { return os.Open(path) }

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }

// writable returns an error if an existing file may not be overwritten, because
// a rename would not check this.
func writable(path string) error {
	if fi, err := os.Stat(path); err == nil && fi.Mode()&0o200 == 0 {
		return syscall.EACCES
	}
	return nil
}

// links returns the number of hard links of a file.
func links(fs.FileInfo) uint64 { return 1 }

// keepOwner would set the owner of a new file to that of the previous one; here
// it has no effect.
func keepOwner(*os.File, fs.FileInfo, fs.FileInfo) error { return nil }

// lockFile would report whether no other process uses a temporary file; here it
// always returns false.
func lockFile(*os.File) bool { return false }
