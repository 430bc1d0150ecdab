//go:build unix

package slots

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile locks a file until it is closed. With wait, it waits for the process that has it locked; otherwise it fails
// then.
func lockFile(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	return unix.Flock(int(f.Fd()), how)
}

// private reports whether a directory belongs to this user, and others cannot write to it.
func private(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
