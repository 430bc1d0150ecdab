package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// command is a program and its arguments.
type command []string

// stages are commands that run one after another. The commands of a stage run in parallel.
type stages [][]command

// cost is the cost of one run.
type cost struct {
	Wall   time.Duration
	Memory int64 // peak of the largest process, bytes
}

// runner is a process that runs stages. The kernel adds the memory of the parent process to the
// peak memory of a program, so the runner stays small.
type runner struct {
	process *exec.Cmd
	in      *json.Encoder
	out     *json.Decoder
}

type runRequest struct {
	Dir    string
	Stages stages
}

type runReply struct {
	Cost  cost
	Error string
}

// runnerArg is the argument that makes this program a runner.
const runnerArg = "-runner"

// startRunner starts the runner, before this process reads or maps files.
func startRunner(ctx context.Context) (*runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &runner{process: exec.CommandContext(ctx, self, runnerArg)}
	r.process.Stderr = os.Stderr
	in, err := r.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in, r.out = json.NewEncoder(in), json.NewDecoder(out)
	return r, r.process.Start()
}

// run runs stages in dir and returns their costs.
func (r *runner) run(dir string, s stages) (cost, error) {
	if err := r.in.Encode(runRequest{dir, s}); err != nil {
		return cost{}, err
	}
	var reply runReply
	if err := r.out.Decode(&reply); err != nil {
		return cost{}, err
	}
	if reply.Error != "" {
		return cost{}, errors.New(reply.Error)
	}
	return reply.Cost, nil
}

// serveRunner is the main function of the runner. It returns at the end of standard input.
func serveRunner() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var request runRequest
		if err := in.Decode(&request); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var reply runReply
		var err error
		if reply.Cost, err = request.Stages.run(request.Dir); err != nil {
			reply.Error = err.Error()
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
}

// run runs stages in dir and returns their costs.
func (s stages) run(dir string) (cost, error) {
	var total cost
	start := time.Now()
	for _, stage := range s {
		costs := make([]cost, len(stage))
		var g errgroup.Group
		for i, c := range stage {
			g.Go(func() (err error) {
				costs[i], err = c.run(dir)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return total, err
		}
		for _, c := range costs {
			total.Memory = max(total.Memory, c.Memory)
		}
	}
	total.Wall = time.Since(start)
	return total, nil
}

// run runs one command. os/exec would cost more than some of the commands.
func (c command) run(dir string) (cost, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return cost{}, err
	}
	defer null.Close()
	start := time.Now()
	process, err := os.StartProcess(c[0], c, &os.ProcAttr{Dir: dir, Files: []*os.File{null, null, os.Stderr}})
	if err != nil {
		return cost{}, err
	}
	state, err := process.Wait()
	if err != nil {
		return cost{}, err
	}
	took := time.Since(start)
	if !state.Success() {
		return cost{}, fmt.Errorf("%s: %s", c, state)
	}
	usage := state.SysUsage().(*syscall.Rusage)
	return cost{took, usage.Maxrss << 10}, nil
}

// String returns the command in a short form.
func (c command) String() string {
	s := filepath.Base(c[0]) + " " + strings.Join(c[1:], " ")
	if len(s) > 200 {
		s = s[:200] + " …"
	}
	return s
}

// sameFiles compares two files.
func sameFiles(a, b string) error {
	f, err := os.Open(a)
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return err
	}
	defer g.Close()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, xerr := io.ReadFull(f, x)
		m, _ := io.ReadFull(g, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return fmt.Errorf("%s and %s differ", a, b)
		}
		if xerr != nil {
			return nil
		}
	}
}
