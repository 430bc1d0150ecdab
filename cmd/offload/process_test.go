package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
)

// asProgram is an environment variable: the test binary runs as offload, under the name in it.
const asProgram = "OFFLOAD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Args[0] = name
		signal.Reset() // the main function of rules_go's tests ignores SIGTERM
		main()
	}
	os.Exit(m.Run())
}

// program returns a command that runs offload under a name.
func program(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+name)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	return cmd
}

// Whatever prints fails on a device that is full, drop-ins in LLVM's words.
func TestFullDevice(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{"offload bundle --type bc --output b --entry gfx942=" + os.Args[0], "offload pack --output p --image file=b,triple=amdgcn-amd-amdhsa"} {
		words := strings.Fields(args)
		cmd := program(t, dir, words[0], words[1:]...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v %s", args, err, stderr.String())
		}
	}
	const (
		ours  = "offload: standard output: write /dev/stdout: no space left on device\n"
		llvms = "LLVM ERROR: IO failure on output stream: No space left on device\n"
	)
	for _, test := range []struct{ args, want string }{
		{"offload", ours},
		{"offload help list", ours},
		{"offload list --help", ours},
		{"offload --version", ours},
		{"offload list b", ours},
		{"offload list --json b", ours},
		{"offload inspect --json p", ours},
		{"offload inspect p", ours},
		{"offload extract p", ours},
		{"offload completion bash", ours},
		{"offload bundle --type bc --output - --entry gfx942=p", "offload: "},
		{"offload unbundle --type bc --input b --entry gfx942=-", "offload: "},
		{"offload pack --output - --image file=b,triple=amdgcn-amd-amdhsa", "offload: "},
		{"clang-offload-bundler -type=bc -list -input=b", llvms},
		{"clang-offload-bundler --help", llvms},
		{"clang-offload-bundler --version", llvms},
		{"llvm-offload-binary p", llvms},
		{"llvm-offload-binary --help", llvms},
	} {
		t.Run(test.args, func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			words := strings.Fields(test.args)
			cmd := program(t, dir, words[0], words[1:]...)
			var stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = full, &stderr
			err = cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(stderr.String(), test.want) || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("%v, printed %q, want %q", err, stderr.String(), test.want)
			}
		})
	}
}

// A call that is blocked where nothing can end it ends at the second signal, even if the
// process was started with the signal ignored, as in the background of a script.
func TestSecondSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for name, args := range map[string][]string{
			"reading standard input": {"list", "-"},
			"opening a pipe":         {"list", "fifo"},
			"a parameter file":       {"@fifo"},
			"a worker":               {"--persistent_worker"},
			"blocked signals":        {"list", "-"},
			"an output":              {"unbundle", "fifo", "--entry", "gfx942=out"},
		} {
			t.Run(signal.String()+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
					t.Fatal(err)
				}
				cmd := program(t, dir, "offload", args...)
				if name == "blocked signals" {
					block(t, cmd)
				}
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				defer stdin.Close()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				timeout := time.After(30 * time.Second)
				for {
					select {
					case err := <-ended:
						if err == nil {
							t.Error("exit code 0")
						}
						return
					case <-time.After(20 * time.Millisecond): // it starts, or has had a signal
						cmd.Process.Signal(signal)
					case <-timeout:
						cmd.Process.Kill()
						t.Fatal("it goes on")
					}
				}
			})
		}
	}
}

// block starts a command with its signals blocked.
func block(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append([]string{env, "--block-signal=INT,TERM", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = env
}

// An idle worker ends immediately after SIGTERM.
func TestIdleWorkerEnds(t *testing.T) {
	cmd := program(t, t.TempDir(), "offload", "--persistent_worker")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	request, err := workertest.Encode(&workerproto.WorkRequest{Arguments: []string{"--version"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	cmd.Process.Signal(syscall.SIGTERM)
	io.Copy(io.Discard, stdout)
	err = cmd.Wait()
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("it took %v to end", took)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
}
