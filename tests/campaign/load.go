package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
)

// load sends a worker requests of different sizes from several goroutines, including cancellations,
// invalid requests and huge arguments. Answers must equal those of one-shot runs, and descriptors
// and memory must not grow.
func load(ctx context.Context, c *campaign) error {
	cmd := exec.Command(c.program, "--persistent_worker")
	cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	client, err := workertest.Start(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	const sides = 8
	round := func(ctx context.Context, n int, seeds [sides]uint64) {
		var all sync.WaitGroup
		for side := range sides {
			all.Add(1)
			go func() {
				defer all.Done()
				c.side(ctx, client, side, n, seeds[side])
			}()
		}
		all.Wait()
	}
	seeds := func() (s [sides]uint64) {
		for i := range s {
			s[i] = c.rand.Uint64()
		}
		return s
	}
	const requests = 40
	// The first rounds fill the memory pools.
	for range 3 {
		round(ctx, requests, seeds())
	}
	files, memory, err := usage(cmd.Process.Pid)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		round(ctx, requests, seeds())
	}
	filesAfter, memoryAfter, err := usage(cmd.Process.Pid)
	// The last requests still run.
	for range 100 {
		if err != nil || filesAfter <= files+2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
		filesAfter, memoryAfter, err = usage(cmd.Process.Pid)
	}
	if err != nil {
		c.fault("the worker ended: %v", err)
		return nil
	}
	if filesAfter > files+2 {
		c.fault("%d descriptors became %d", files, filesAfter)
	}
	const slack = 200 << 10 // KiB: the memory of one more request at a time
	if memoryAfter > 2*memory+slack {
		c.fault("%d KiB of memory became %d", memory, memoryAfter)
	}
	return nil
}

// side is a goroutine that sends requests.
func (c *campaign) side(ctx context.Context, client *workertest.Client, side, n int, seed uint64) {
	next := seed
	chance := func(n int) int { // a separate one, because the campaign's is not safe for concurrent use
		next = next*6364136223846793005 + 1442695040888963407
		return int(next>>33) % n
	}
	for i := range n {
		if ctx.Err() != nil {
			return
		}
		id := int32(1 + side + 8*i)
		s := c.samples[chance(len(c.samples))]
		target := s.targets[chance(len(s.targets))]
		out := fmt.Sprintf("side%d", side)
		request := &workerproto.WorkRequest{
			RequestId: id,
			Arguments: []string{"unbundle", "--input=" + s.file, "--entry=" + target + "=" + out},
			Inputs:    []*workerproto.Input{{Path: s.file}},
		}
		want, cancel := 0, false
		switch chance(8) {
		case 0:
			request.Arguments, want = []string{"no such verb", "\xff\xfe"}, -1
		case 1:
			request.Arguments, want = []string{"list", "--input=" + strings.Repeat("x", chance(1<<20))}, -1
		case 2:
			request.Inputs, want = nil, -1 // an undeclared input
		case 3:
			cancel = true
		}
		if cancel {
			if err := client.Send(request, workertest.Cancellation(id)); err != nil {
				c.fault("the worker: %v", err)
				return
			}
		} else if err := client.Send(request); err != nil {
			c.fault("the worker: %v", err)
			return
		}
		response, err := client.Wait(ctx, id)
		c.runs.Add(1)
		if err != nil {
			if ctx.Err() == nil {
				c.fault("the worker: %v", err)
			}
			return
		}
		got, err := os.ReadFile(c.path(out))
		os.Remove(c.path(out))
		switch {
		case response.WasCancelled:
			if !cancel {
				c.fault("%q was cancelled, which nobody asked for", request.Arguments)
			}
		case want == 0 && response.ExitCode == 0:
			if string(got) != string(s.images[target]) {
				c.fault("%q: wrong bytes, %v", request.Arguments, err)
			}
		case want == 0:
			c.fault("%q: exit status %d: %s", request.Arguments, response.ExitCode, response.Output)
		case response.ExitCode == 0:
			c.fault("%.100q: exit status 0", request.Arguments)
		}
	}
}

// usage returns the number of open descriptors of a process, and its memory in KiB.
func usage(pid int) (files, memory int, err error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			memory, err = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return len(open), memory, err
}
