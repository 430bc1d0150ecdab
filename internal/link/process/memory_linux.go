package process

import (
	"os"
	"syscall"
)

// maxMemory returns the largest resident size of a program that has ended, in bytes.
func maxMemory(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return int64(usage.Maxrss) << 10 //nolint:unconvert // the type differs between systems
	}
	return 0
}
