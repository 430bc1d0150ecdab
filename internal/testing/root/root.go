// Package root gets tests what the machine may lack: the root that bazelw
// prepares has LLVM, Bazel, buildbox and ROCm's code object manager.
package root

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inside is set for programs that tools/offline/run started.
const inside = "RULES_OFFLOAD_ROOT"

// Bazel reports whether the test was started by Bazel, which has it run where
// Bazel itself runs.
func Bazel() bool { return os.Getenv("TEST_SRCDIR") != "" }

// Main runs the tests of a package and returns the exit code; call it from
// TestMain. If one of the files or programs on PATH that the tests need is missing on
// this machine, it starts the test program again inside the prepared root.
func Main(m *testing.M, needs ...string) int {
	if err := Enter(needs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Enter starts the program again inside the prepared root if one of the files or
// programs on PATH that it needs is missing on this machine.
func Enter(needs ...string) error {
	for _, need := range needs {
		if _, err := exec.LookPath(need); err == nil {
			continue
		}
		if _, err := os.Stat(need); err == nil || os.Getenv(inside) != "" || Bazel() {
			continue
		}
		return fmt.Errorf("%s is not on this machine, and the root that bazelw prepares cannot be entered: %v", need, enter())
	}
	return nil
}

// enter replaces the process by itself inside the prepared root. It returns
// only when that fails.
func enter() error {
	project, err := Project()
	if err != nil {
		return err
	}
	run := filepath.Join(project, "tools", "offline", "run")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(run, append([]string{run, self}, os.Args[1:]...), os.Environ())
}

// Project returns the directory of go.mod, for tests that `go test` runs.
func Project() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Runfile returns the path of a file that a test rule has as data and names, as
// its rlocationpath, in a variable of the environment.
func Runfile(variable string) (string, error) {
	name := os.Getenv(variable)
	if name == "" {
		return "", fmt.Errorf("the test rule must set %s to the rlocationpath of a file of its data", variable)
	}
	return filepath.Join(os.Getenv("TEST_SRCDIR"), name), nil
}
