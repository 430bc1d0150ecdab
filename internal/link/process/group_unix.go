//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup starts the process in a group of its own, and makes cancellation kill
// the whole group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
}
