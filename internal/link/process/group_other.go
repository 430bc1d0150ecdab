//go:build !unix

package process

import "os/exec"

// ownGroup has no effect on systems without process groups.
func ownGroup(*exec.Cmd) {}
