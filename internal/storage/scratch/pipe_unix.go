//go:build unix

package scratch

import (
	"os"
	"os/signal"
	"syscall"
)

// onEndOfPipe makes the process call remove before SIGPIPE ends it: a reader of what it prints that ends early,
// such as head. stop restores the behaviour of the runtime of Go, which ends the process at once.
func onEndOfPipe(remove func()) (stop func()) {
	signals, stopped := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGPIPE)
	// unguarded: it waits for a signal
	go func() {
		select {
		case <-signals:
			remove()
			signal.Reset(syscall.SIGPIPE)
			syscall.Kill(os.Getpid(), syscall.SIGPIPE)
		case <-stopped:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(stopped)
	}
}
