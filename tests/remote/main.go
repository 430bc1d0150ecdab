// Remote runs a remote execution server on this machine for tests.
//
//	remote [-dir DIR] COMMAND [ARG]...   runs the command with REMOTE_EXECUTOR set, then stops the server
//	remote [-dir DIR]                    prints the address, and stops at the end of standard input
//
// In both cases the last line on standard error says how many actions were executed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

func main() {
	dir := flag.String("dir", "", "where the content store is `kept`; a temporary directory if empty")
	verbose := flag.Bool("v", false, "show the server's messages")
	flag.Parse()
	code, err := run(*dir, *verbose, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "remote:", err)
		code = 1
	}
	os.Exit(code)
}

func run(dir string, verbose bool, command []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if dir == "" {
		if dir, err = os.MkdirTemp("", "remote"); err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
	}
	opts := reapi.Options{Dir: dir}
	if verbose {
		opts.Log = os.Stderr
	}
	server, err := reapi.Start(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer func() {
		fmt.Fprintf(os.Stderr, "remote: %d actions executed\n", server.Executions())
		err = errors.Join(err, server.Close())
	}()

	if len(command) == 0 {
		fmt.Println(server.Address())
		ended := make(chan struct{})
		go func() {
			io.Copy(io.Discard, os.Stdin)
			close(ended)
		}()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return 0, nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "REMOTE_EXECUTOR="+server.Address())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
