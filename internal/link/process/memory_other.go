//go:build !linux

package process

import "os"

// maxMemory returns 0: the size is not known.
func maxMemory(*os.ProcessState) int64 { return 0 }
