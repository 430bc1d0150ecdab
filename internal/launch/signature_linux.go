package launch

import (
	"fmt"
	"os"
	"syscall"
)

// signature returns a text that changes if a file is replaced or changed in place, also with a time that is set back.
func signature(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s: no inode", name)
	}
	return fmt.Sprintf("%d %d %d %d.%d %d", info.Size(), info.ModTime().UnixNano(), s.Ino, s.Ctim.Sec, s.Ctim.Nsec, s.Dev), nil
}
