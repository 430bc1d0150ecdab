package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
	"github.com/rules-offload/rules_offload/worker"
)

// workerIdle is the time after the last request at which the worker returns unused memory to
// the system.
const workerIdle = 10 * time.Second

// serve answers Bazel's requests on standard input until the end of the input. The arguments
// after --persistent_worker precede those of each request.
func serve(ctx context.Context, args []string) int {
	args, limit, err := workerMemory(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "offload: worker: %v\n", err)
		return 2
	}
	budget, err := newBudget(limit, raiseOfWorker)
	if err != nil {
		fmt.Fprintf(os.Stderr, "offload: worker: %v\n", err)
		return 1
	}
	startup := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--persistent_worker" })
	stdout := os.Stdout
	os.Stdout = os.Stderr // stray output must not reach Bazel as a response
	handler := func(ctx context.Context, req *worker.Request) int {
		inputs := make([]string, len(req.Inputs)) // not nil: without inputs, no file may be read
		for i, in := range req.Inputs {
			inputs[i] = in.Path
		}
		return verb.Run(ctx, &command.Call{
			Name: "offload",
			Args: append(slices.Clone(startup), req.Arguments...),
			Session: newSession(engine.Config{
				Dir: req.SandboxDir, Inputs: inputs,
				TempDir: os.TempDir(), Budget: budget,
			}),
			Stdout:    req.Output,
			Stderr:    req.Output,
			Worker:    true,
			LookupEnv: func(string) (string, bool) { return "", false },
		})
	}
	err = worker.Serve(ctx, os.Stdin, stdout, handler, worker.Options{
		IdleAfter: workerIdle,
		Log:       os.Stderr,
	})
	scratch.RemoveAll() // of requests that did not end
	if err != nil {
		fmt.Fprintf(os.Stderr, "offload: worker: %v\n", err)
		return 1
	}
	return 0
}
