package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/rules-offload/rules_offload/worker"
)

// Serve the requests of Bazel on standard input. Here, the input ends at once, so that Serve returns.
func ExampleServe() {
	handler := func(ctx context.Context, req *worker.Request) int {
		if len(req.Arguments) == 0 {
			fmt.Fprintln(req.Output, "expected an argument, found none")
			return 1
		}
		// Do the work: resolve paths below req.SandboxDir, and stop when ctx ends.
		return 0
	}
	var requests, responses bytes.Buffer // os.Stdin and the real standard output of a worker
	err := worker.Serve(context.Background(), &requests, &responses, handler, worker.Options{Log: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(responses.Len(), "bytes of responses")
	// Output: 0 bytes of responses
}
