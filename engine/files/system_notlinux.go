//go:build !linux

package files

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// copyRange would copy inside the kernel; here the caller writes everything.
func copyRange(*os.File, int64, *os.File, int64, int64) int64 { return 0 }

// exchange would swap two files; here the caller renames.
func exchange(string, string) error { return errors.ErrUnsupported }

// touch sets the time of a file to now.
func touch(name string) error { return os.Chtimes(name, time.Now(), time.Now()) }

// openUnnamed would create a file without a name; here it always has one.
var openUnnamed = func(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkFile(*os.File, string) error { return errors.ErrUnsupported }
