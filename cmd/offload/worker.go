package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/verb"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/worker"
)

// workerIdle is how long the worker waits for a request before it gives its
// spare memory back.
const workerIdle = 10 * time.Second

// serve answers the requests of Bazel on standard input until it ends. The
// arguments behind --persistent_worker's are put before those of each request.
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
	os.Stdout = os.Stderr // what prints by mistake must not reach Bazel as a response
	handler := func(ctx context.Context, req *worker.Request) int {
		root := files.NewRoot(req.SandboxDir)
		root.MaxStream = budget.Memory() / streamShare
		root.Declare(slices.Collect(maps.Keys(req.Inputs)))
		return verb.Run(ctx, &command.Call{
			Name:      "offload",
			Args:      append(slices.Clone(startup), req.Arguments...),
			Session:   engine.New(engine.Config{Files: root, Budget: budget}),
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
	if err != nil {
		fmt.Fprintf(os.Stderr, "offload: worker: %v\n", err)
		return 1
	}
	return 0
}
