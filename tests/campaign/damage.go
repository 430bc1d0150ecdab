package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
)

// lane is a worker that reads damaged files one after another, some hundred times as fast as one
// process for each.
type lane struct {
	c       *campaign
	client  *workertest.Client
	request int32
}

// newLane starts the program as a worker.
func (c *campaign) newLane() (*lane, error) {
	cmd := exec.Command(c.program, "--persistent_worker")
	cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	client, err := workertest.Start(cmd)
	return &lane{c: c, client: client}, err
}

// do runs a request and returns its exit status, or -1 if the worker returned none.
func (l *lane) do(ctx context.Context, what string, inputs []string, args ...string) int {
	l.request++
	request := &workerproto.WorkRequest{Arguments: args, RequestId: l.request}
	for _, input := range inputs {
		request.Inputs = append(request.Inputs, &workerproto.Input{Path: input})
	}
	response, err := l.client.Do(ctx, request)
	l.c.runs.Add(1)
	if err != nil {
		if ctx.Err() == nil {
			l.c.fault("%s: the worker: %v", what, err)
		}
		return -1
	}
	return int(response.ExitCode)
}

// read reads a damaged copy of a sample with every verb that reads bundles.
func (l *lane) read(ctx context.Context, s *sample, data []byte, what string) error {
	const input = "damaged"
	if err := os.WriteFile(l.c.path(input), data, 0o666); err != nil {
		return err
	}
	one := s.targets[l.c.rand.IntN(len(s.targets))]
	all := []string{"unbundle", "--input=" + input}
	want := map[string][]byte{}
	for i, target := range s.targets {
		all = append(all, fmt.Sprintf("--entry=%s=out%d", target, i))
		want[fmt.Sprintf("out%d", i)] = s.images[target]
	}
	for _, run := range []struct {
		args []string
		want map[string][]byte
	}{
		{[]string{"unbundle", "--input=" + input, "--entry=" + one + "=out"}, map[string][]byte{"out": s.images[one]}},
		{all, want},
		{[]string{"extract", "--image=id=hipv4-amdgcn-amd-amdhsa--" + one + ",file=out", input}, map[string][]byte{"out": s.images[one]}},
	} {
		what := fmt.Sprintf("%s, %s: %s", s.name, what, run.args)
		status := l.do(ctx, what, []string{input}, run.args...)
		if ctx.Err() != nil {
			return nil
		}
		if status == 0 && !s.checked {
			// A plain bundle has no checksum, so changed bytes are not detected; all outputs
			// must exist.
			for name := range run.want {
				if run.want[name], _ = os.ReadFile(l.c.path(name)); run.want[name] == nil {
					run.want[name] = []byte("missing")
				}
			}
		}
		l.c.wantOutputs(what, status, run.want)
	}
	for _, verb := range [][]string{{"list", input}, {"inspect", "--kernels", input}, {"check", "--input=" + input}} {
		if status := l.do(ctx, what, []string{input}, verb...); status == 2 {
			l.c.fault("%s: %s is no command line", s.name, verb)
		}
	}
	return nil
}

// flips changes bits. If bundles have checksums, every read must return the right bytes or fail.
func flips(ctx context.Context, c *campaign) error {
	return c.damage(ctx, func(s *sample, data []byte) ([]byte, string) {
		// Half of all flips are at the ends, where the headers and the index are.
		at := c.rand.IntN(len(data))
		const edge = 300
		switch c.rand.IntN(4) {
		case 0:
			at = c.rand.IntN(min(edge, len(data)))
		case 1:
			at = len(data) - 1 - c.rand.IntN(min(edge, len(data)))
		}
		bit := c.rand.IntN(8)
		data[at] ^= 1 << bit
		return data, fmt.Sprintf("bit %d of byte 0x%x", bit, at)
	})
}

// cuts truncates files, and overwrites ranges with zeros, noise and other ranges.
func cuts(ctx context.Context, c *campaign) error {
	return c.damage(ctx, func(s *sample, data []byte) ([]byte, string) {
		at := c.rand.IntN(len(data))
		n := min(1+c.rand.IntN(64), len(data)-at)
		switch c.rand.IntN(4) {
		case 0:
			return data[:at], fmt.Sprintf("cut to %d bytes", at)
		case 1:
			clear(data[at : at+n])
			return data, fmt.Sprintf("%d zeros at 0x%x", n, at)
		case 2:
			for i := range n {
				data[at+i] = byte(c.rand.Uint32())
			}
			return data, fmt.Sprintf("%d bytes of noise at 0x%x", n, at)
		default:
			from := c.rand.IntN(len(data) - n + 1)
			copy(data[at:at+n], slices.Clone(data[from:from+n]))
			return data, fmt.Sprintf("%d bytes of 0x%x at 0x%x", n, from, at)
		}
	})
}

// damage reads samples that change has damaged until the context ends.
func (c *campaign) damage(ctx context.Context, change func(*sample, []byte) ([]byte, string)) error {
	l, err := c.newLane()
	if err != nil {
		return err
	}
	defer l.client.Close()
	for ctx.Err() == nil {
		s := c.samples[c.rand.IntN(len(c.samples))]
		data, what := change(s, slices.Clone(s.data))
		if string(data) == string(s.data) {
			continue
		}
		if err := l.read(ctx, s, data, what); err != nil {
			return err
		}
	}
	return nil
}
