//go:build !linux

package key

import (
	"os"
	"time"
)

// changeTime returns the time at which the content of a file changed.
func changeTime(info os.FileInfo) time.Time { return info.ModTime() }
