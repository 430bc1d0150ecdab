//go:build unix

package process

import "syscall"

// nonblock has a file opened such that reads of it can be interrupted.
const nonblock = syscall.O_NONBLOCK
