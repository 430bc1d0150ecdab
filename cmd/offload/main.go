// Offload creates, inspects and unpacks GPU offload bundles. It is a program with verbs
// (offload bundle, offload list …), a persistent worker of Bazel that runs the same verbs, and,
// if it is called under the name of an LLVM tool, a drop-in for that tool.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/flagfile"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	_ "github.com/rules-offload/rules_offload/internal/cmd/stack" // grows the stack of main once
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

func main() {
	ctx, protect := interruptible()
	if args := os.Args[1:]; slices.Contains(args, "--persistent_worker") {
		protect()
		os.Exit(serve(ctx, args))
	}
	os.Exit(runOnce(ctx, protect))
}

// interruptible returns a context, and a function from whose call on SIGINT, SIGTERM and SIGHUP end
// the context. The first of them lets the call clean up; the second ends the process, which may be
// blocked in a read or write that no context ends. SIGHUP stays ignored under nohup.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	return ctx, sync.OnceFunc(func() {
		handled := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
		if !signal.Ignored(syscall.SIGHUP) {
			handled = append(handled, syscall.SIGHUP)
		}
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, handled...)
		// unguarded: it waits for signals
		go func() {
			<-signals
			cancel()
			second := (<-signals).(syscall.Signal)
			signal.Reset(second)
			scratch.RemoveAll()
			syscall.Kill(os.Getpid(), second)
			time.Sleep(time.Second)    // it takes effect meanwhile,
			os.Exit(128 + int(second)) // unless the process was started with it ignored
		}()
	})
}

// runOnce runs the command line of the process. Until files.Protect is called, a signal ends a call at once
// if all that it does is read inputs, write outputs of its Session, and print. A process that was started
// with SIGINT ignored, as in the background of a script, handles it, and so do calls that show their
// progress.
func runOnce(ctx context.Context, protect func()) int {
	files.Protect = protect
	run, raise := dropIn(os.Args[0]), raiseByFlag
	shows, colors := terminal(os.Stderr), terminal(os.Stdout)
	if !unblocked || signal.Ignored(syscall.SIGINT) || shows || run != nil && toolName(os.Args[0]) != "clang-offload-bundler" {
		protect()
	}
	if run != nil {
		raise = raiseByVariable
	}
	budget, err := newBudget(0, raise)
	if err != nil {
		fmt.Fprintf(os.Stderr, "offload: %s\n", printable.Error(err))
		return 1
	}
	stdout := io.Writer(os.Stdout)
	if stdoutClosed != 0 {
		stdout = closedOutput{}
	}
	config := engine.Config{
		Stdin: os.Stdin, Stdout: stdout, TempDir: os.TempDir(), Budget: budget,
	}
	call := &command.Call{
		Name:      os.Args[0],
		Args:      os.Args[1:],
		Stdout:    stdout,
		Stderr:    os.Stderr,
		LookupEnv: os.LookupEnv,
		Color:     colors && os.Getenv("NO_COLOR") == "",
		Protect:   protect,
		Memory: func() int64 {
			available, _ := availableMemory()
			return available
		},
	}
	if shows {
		progress := startProgress(os.Stderr)
		defer progress.end()
		config.Meter, call.Stderr = &progress.meter, progress
	}
	call.Session = newSession(config)
	call.WithMemory = func(limit int64) (*engine.Session, error) {
		budget, err := newBudget(limit, raise)
		if err != nil {
			return nil, err
		}
		call.Session.Files().MaxStream = func() int64 { return limit / streamShare }
		return call.Session.WithBudget(budget), nil
	}
	if run != nil {
		// Scripts read the names in files as LLVM's tools print them.
		if colors {
			call.Stdout = printable.Terminal(call.Stdout)
		}
		if shows {
			call.Stderr = printable.Terminal(call.Stderr)
		}
		return run(call.Session.Context(ctx), call)
	}
	if verb.IsCompletion(call.Args) || verb.RunsProgram(call.Args) {
		return verb.Run(ctx, call)
	}
	if call.Args, err = flagfile.Expand(call.Args, readAll(call.Session)); err != nil {
		fmt.Fprintf(os.Stderr, "offload: %s\n", printable.Error(err))
		return 1
	}
	return verb.Run(ctx, call)
}

// closedOutput is the standard output of a process that was started without one.
type closedOutput struct{}

// Write fails as a write to a closed file descriptor does.
func (closedOutput) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EBADF}
}

// readAll returns a function that reads a whole parameter file. Its errors do not name the file.
func readAll(s *engine.Session) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		in, err := s.Files().Open(name)
		var failure *files.Error
		switch {
		case errors.As(err, &failure):
			return nil, errors.New(strings.TrimPrefix(failure.Plain(), name+": "))
		case err != nil:
			return nil, err
		}
		defer in.Close()
		return slices.Clone(in.All().Mapped(guard.Inside)), nil
	}
}
