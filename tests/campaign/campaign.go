package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// part causes one kind of failure until the context ends.
type part struct {
	name string
	run  func(context.Context, *campaign) error
}

// parts returns the parts that need only the program and strace.
func parts() []part {
	return []part{
		{"flips", flips},
		{"cuts", cuts},
		{"syscalls", syscalls},
		{"kills", kills},
		{"changes", changes},
		{"races", races},
		{"load", load},
		{"verbs", verbs},
		{"mistakes", mistakes},
		{"witness", witnesses},
		{"parsers", damagedInputs},
	}
}

// campaign is one run of a part.
type campaign struct {
	program string
	dir     string
	seed    uint64
	rand    *rand.Rand
	samples []*sample
	runs    atomic.Int64

	mu     sync.Mutex
	faults []string
	lines  []string // of report
}

// report appends a line to the part's report.
func (c *campaign) report(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// newCampaign makes a campaign with samples in a new directory.
func newCampaign(program, dir string, seed uint64) (*campaign, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	c := &campaign{program: program, dir: dir, seed: seed, rand: rand.New(rand.NewPCG(seed, 0))}
	return c, c.makeSamples()
}

// maxFaults is the number of failures that are described.
const maxFaults = 20

// fault records a failure.
func (c *campaign) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// call runs the program in the directory of the campaign and returns its exit status and
// output.
func (c *campaign) call(ctx context.Context, args ...string) (int, string) {
	return c.exec(ctx, exec.CommandContext(ctx, c.program, args...))
}

// longest is the time after which a run counts as a hang.
const longest = time.Minute

func (c *campaign) exec(ctx context.Context, cmd *exec.Cmd) (int, string) {
	cmd.Dir = c.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return -1, err.Error()
	}
	hang := time.AfterFunc(longest, func() {
		c.fault("%s runs for more than %s", strings.Join(cmd.Args, " "), longest)
		cmd.Process.Kill()
	})
	err := cmd.Wait()
	hang.Stop()
	c.runs.Add(1)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return -1, err.Error()
	}
	text := out.String()
	if ctx.Err() == nil && (strings.Contains(text, "panic:") || strings.Contains(text, "internal error")) {
		c.fault("%s: %s", strings.Join(cmd.Args, " "), text)
	}
	return cmd.ProcessState.ExitCode(), text
}

// path returns the path of a file of the campaign.
func (c *campaign) path(name string) string { return filepath.Join(c.dir, name) }

// wantOutputs checks the files after a run with an exit status: all outputs as expected, or none,
// and no other file. what describes the run in messages.
func (c *campaign) wantOutputs(what string, status int, want map[string][]byte) {
	for name, content := range want {
		got, err := os.ReadFile(c.path(name))
		switch {
		case status == 0 && err != nil:
			c.fault("%s: exit status 0 without the output %s", what, name)
		case status == 0 && !bytes.Equal(got, content):
			c.fault("%s: exit status 0 and wrong bytes in %s (%d, expected %d)", what, name, len(got), len(content))
		case status != 0 && err == nil:
			c.fault("%s: exit status %d and an output %s of %d bytes", what, status, name, len(got))
		}
		os.Remove(c.path(name))
	}
	c.wantNothingLeft(what)
}

// wantNothingLeft checks that no temporary file remains.
func (c *campaign) wantNothingLeft(what string) {
	left, err := filepath.Glob(c.path(".offload-*"))
	if err != nil || len(left) > 0 {
		c.fault("%s: left behind: %v %v", what, left, err)
		for _, name := range left {
			os.Remove(name)
		}
	}
}
