package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// run runs a command in a directory and returns what it printed. The
// environment is env alone. A process that outlives ctx is killed.
func run(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{}, env...) // not nil, which would be the environment of this process
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second // for what the process started
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		return "", cause
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s: %s\n%s", filepath.Base(command[0]), exit, strings.TrimRight(output.String(), "\n"))
	}
	return output.String(), err
}
