//go:build !unix

package pipe

import "os/exec"

// detach has no effect on systems without sessions.
func detach(*exec.Cmd) {}
