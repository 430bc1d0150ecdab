//go:build !linux

package compilation

import "os/exec"

// endWithParent does nothing: only Linux can kill a process with its parent.
func endWithParent(*exec.Cmd) {}
