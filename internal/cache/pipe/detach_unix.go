//go:build unix

package pipe

import (
	"os/exec"
	"syscall"
)

// detach starts a program in a session of its own, so that it completes what it stores after a build ends.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
