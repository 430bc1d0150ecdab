//go:build unix

package process

import "syscall"

// nonblock is the flag for opening a file so that reads can be interrupted.
const nonblock = syscall.O_NONBLOCK
