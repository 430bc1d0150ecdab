package command

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// stdoutBuffer is the size of the buffer of standard output, in bytes.
const stdoutBuffer = 16 << 10

// Buffered runs a command line with a buffered call.Stdout, and returns the result of run. If
// writing standard output fails, it calls report once; if run returned 0, the result of report
// is the exit code, because lost output is a failure. Text on call.Stderr appears after earlier
// text on call.Stdout. It calls run in guard.Faults, so that truncating a mapped input is an
// error of the command.
func Buffered(call *Call, run func(*Call) int, report func(stderr io.Writer, err error) int) int {
	out := &stdout{w: bufio.NewWriterSize(call.Stdout, stdoutBuffer)}
	buffered := *call
	buffered.Stdout = out
	buffered.Stderr = &stderr{out: out, w: call.Stderr}
	code := 1
	if err := guard.Faults(func() error {
		code = run(&buffered)
		return nil
	}); err != nil {
		fmt.Fprintf(buffered.Stderr, "%s: %s\n", filepath.Base(call.Name), printable.Error(err))
	}
	if err := out.flush(); err != nil {
		if failed := report(call.Stderr, err); code == 0 {
			return failed
		}
	}
	return code
}

// stdout is a buffer for concurrent use.
type stdout struct {
	mu sync.Mutex
	w  *bufio.Writer
}

func (s *stdout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// flush writes the buffered data and returns the first error of all writes.
func (s *stdout) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Flush()
}

// stderr flushes out before it writes to w.
type stderr struct {
	out *stdout
	w   io.Writer
}

func (s *stderr) Write(p []byte) (int, error) {
	s.out.flush() // the buffer keeps the error
	return s.w.Write(p)
}
