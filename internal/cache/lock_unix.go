//go:build unix

package cache

import (
	"os"

	"golang.org/x/sys/unix"
)

// locked opens a file, creates it if it is missing, and calls fn while no other process has it locked.
func locked(name string, fn func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return fn(f)
}
