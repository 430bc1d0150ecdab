package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/devicelink"
)

// run runs a command in a directory and returns its output. Only env is in its
// environment. If ctx is done before the process ends, run kills it and the
// processes that it started. The error of a failed process contains its output.
func run(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	printed, err = combinedOutput(ctx, command, dir, env)
	var failed *devicelink.ExitError
	if !errors.As(err, &failed) {
		return printed, err
	}
	var exit *exec.ExitError
	if errors.As(failed.Err, &exit) {
		return "", &processError{program: filepath.Base(command[0]), output: printed, err: exit}
	}
	return printed, failed.Err
}

// processError reports a process that failed.
type processError struct {
	program, output string
	err             error
}

// Error returns the status and the output.
func (e *processError) Error() string {
	return fmt.Sprintf("%s: %s\n%s", e.program, e.err, strings.TrimRight(e.output, "\n"))
}

// Unwrap returns what the system reported.
func (e *processError) Unwrap() error { return e.err }

// combinedOutput runs a command like run and returns its output. If the process could not be
// started or failed, the error is a [devicelink.ExitError].
func combinedOutput(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	var output bytes.Buffer
	process := devicelink.Process{Args: command, Env: env, Dir: dir, Stdout: &output, Stderr: &output}
	err = process.Run(ctx)
	var failed *devicelink.ExitError
	if err != nil && !errors.As(err, &failed) {
		return "", err
	}
	return output.String(), err
}
