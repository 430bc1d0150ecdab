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
// processes that it started.
func run(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	var output bytes.Buffer
	process := devicelink.Process{Args: command, Env: env, Dir: dir, Stdout: &output, Stderr: &output}
	err = process.Run(ctx)
	var failed *devicelink.ExitError
	switch {
	case err == nil:
		return output.String(), nil
	case !errors.As(err, &failed):
		return "", err
	}
	var exit *exec.ExitError
	if errors.As(failed.Err, &exit) {
		return "", fmt.Errorf("%s: %s\n%s", filepath.Base(command[0]), exit, strings.TrimRight(output.String(), "\n"))
	}
	return output.String(), failed.Err
}
