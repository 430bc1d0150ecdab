package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unblocked reports whether SIGINT, SIGTERM and SIGHUP reach the process. A process can be started with
// signals blocked, which the runtime of Go does not change until it handles them. That the main thread
// unblocks them suffices, and programs that the process starts still get the mask of its start. The
// initialisation of packages runs in the main thread.
var unblocked = unblock(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)

func unblock(signals ...syscall.Signal) bool {
	var set unix.Sigset_t
	for _, s := range signals {
		set.Val[0] |= 1 << (s - 1)
	}
	return unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil) == nil
}
