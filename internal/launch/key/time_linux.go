package key

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the later of the times at which the content and the inode of a file changed.
func changeTime(info os.FileInfo) time.Time {
	t := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if c := time.Unix(s.Ctim.Unix()); c.After(t) {
			t = c
		}
	}
	return t
}
