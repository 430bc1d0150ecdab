// Package process runs programs: one, or several at a time, limited by slots such as those of
// the job server of GNU make. It passes long command lines in response files. If a program is
// cancelled, it also kills the processes that the program started.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Command is a program to run.
type Command struct {
	// Args are the program, a path, and its arguments.
	Args []string
	Env  []string // all of its environment
	// Dir is its working directory, "" for that of this process.
	Dir string
	// Stdout and Stderr receive the output of the program. nil discards it.
	Stdout, Stderr io.Writer
	// Responses is the directory for a response file with the arguments, if they are too
	// long for a command line. "" means that the program reads no response files.
	Responses string
	// MaxMemory receives the largest resident size of the program, in bytes, where the system reports it. It
	// may be nil.
	MaxMemory *int64
	// WindowsQuoting quotes the response file for programs of Windows.
	WindowsQuoting bool
}

// ExitError reports that a program could not be started, or failed.
type ExitError struct {
	Program string // as it was to be run
	Err     error
}

// Error names the program without its directories, as LLVM's tools do.
func (e *ExitError) Error() string { return fmt.Sprintf("'%s' failed", filepath.Base(e.Program)) }

// Unwrap returns what the system reported.
func (e *ExitError) Unwrap() error { return e.Err }

// maxCommandLine is the largest size of arguments on a command line, in bytes. All
// systems accept it, in addition to the environment.
const maxCommandLine = 96 << 10

// Run runs a program and waits until it ends. If ctx is done before, Run kills the program
// and the processes that it started, and returns the cause.
func (p *Command) Run(ctx context.Context) error {
	args := p.Args[1:]
	if p.Responses != "" && commandLineSize(args) > maxCommandLine {
		file, err := writeResponse(p.Responses, args, p.WindowsQuoting)
		if err != nil {
			return err
		}
		defer os.Remove(file)
		args = []string{"@" + file}
	}
	cmd := exec.CommandContext(ctx, p.Args[0], args...)
	cmd.Dir = p.Dir
	cmd.Env = append([]string{}, p.Env...) // not nil, which would be the environment of this process
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	cmd.WaitDelay = time.Second // for processes that the program started
	ownGroup(cmd)
	err := cmd.Run()
	if p.MaxMemory != nil && cmd.ProcessState != nil {
		*p.MaxMemory = maxMemory(cmd.ProcessState)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return &ExitError{Program: p.Args[0], Err: err}
	}
	return nil
}

func commandLineSize(args []string) int {
	size := 0
	for _, arg := range args {
		size += len(arg) + 1
	}
	return size
}

// writeResponse writes a response file and returns its name.
func writeResponse(dir string, args []string, windows bool) (name string, err error) {
	f, err := os.CreateTemp(dir, "arguments-*.rsp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(response(args, windows))
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// response returns the content of a response file with one argument in each line, quoted
// for GNU's tools and clang, or for programs of Windows.
func response(args []string, windows bool) []byte {
	var b bytes.Buffer
	for _, arg := range args {
		b.WriteByte('"')
		if windows {
			slashes := 0
			for i := range len(arg) {
				if arg[i] == '"' {
					b.WriteString(strings.Repeat(`\`, slashes+1))
				}
				if slashes++; arg[i] != '\\' {
					slashes = 0
				}
				b.WriteByte(arg[i])
			}
			b.WriteString(strings.Repeat(`\`, slashes))
		} else {
			strings.NewReplacer(`\`, `\\`, `"`, `\"`).WriteString(&b, arg)
		}
		b.WriteString("\"\n")
	}
	return b.Bytes()
}

// Slots limits the number of jobs that run at a time.
type Slots interface {
	// Acquire waits for a slot and returns the function that releases it. If ctx is done
	// before, it returns the cause.
	Acquire(ctx context.Context) (release func(), err error)
}

// Limit returns n slots.
func Limit(n int) Slots {
	s := make(slots, max(n, 1))
	return s
}

type slots chan struct{}

// Acquire implements Slots.
func (s slots) Acquire(ctx context.Context) (func(), error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Jobs runs job for 0 to n-1, as many at a time as there are slots. Before each job, it calls
// start, if that is not nil. It calls start in order, while other jobs run. If a job fails, Jobs
// cancels the other jobs, waits for them and returns the first error.
func Jobs(ctx context.Context, slots Slots, n int, start func(i int), job func(ctx context.Context, i int) error) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
			cancel(err)
		}
	}
	for i := range n {
		release, err := slots.Acquire(running)
		if err != nil {
			fail(err)
			break
		}
		if start != nil {
			start(i)
		}
		wg.Go(func() {
			defer release()
			if err := guard.Contain(func() error { return job(running, i) }); err != nil {
				fail(err)
			}
		})
	}
	wg.Wait()
	return first
}
