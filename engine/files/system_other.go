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

// fileID tells whether two names mean the same file.
type fileID string

func identify(path string, _ fs.FileInfo) fileID {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return fileID(strings.ToLower(path))
}

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }

// writable says whether an existing file may be overwritten: renaming over it
// would not ask.
func writable(path string) error {
	if fi, err := os.Stat(path); err == nil && fi.Mode()&0o200 == 0 {
		return syscall.EACCES
	}
	return nil
}

// links returns how many names a file has.
func links(fs.FileInfo) uint64 { return 1 }

// keepOwner would give a new file the owner of the one before.
func keepOwner(*os.File, fs.FileInfo, fs.FileInfo) error { return nil }

// lockFile would report whether no other process uses a temporary file.
func lockFile(*os.File) bool { return false }
