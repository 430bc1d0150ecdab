package compilation

import (
	"os/exec"
	"syscall"
)

// endWithParent has a process killed if this one is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
