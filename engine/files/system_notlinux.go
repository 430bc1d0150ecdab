//go:build !linux

package files

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// copyRange copies nothing: the caller writes all bytes.
func copyRange(*os.File, int64, *os.File, int64, int64) int64 { return 0 }

// exchange is not supported: the caller renames instead.
func exchange(string, string) error { return errors.ErrUnsupported }

// appendOnly is not supported.
var appendOnly = func(string) bool { return false }

// touch sets the time of a file to now.
func touch(name string) error { return os.Chtimes(name, time.Now(), time.Now()) }

// openUnnamed is not supported: temporary files have names.
var openUnnamed = func(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkFile(*os.File, string) error { return errors.ErrUnsupported }
