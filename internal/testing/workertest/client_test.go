package workertest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
	"github.com/rules-offload/rules_offload/worker"
)

// With this variable set, the test binary is a worker of the kind it names.
const kind = "WORKERTEST_KIND"

func TestMain(m *testing.M) {
	switch os.Getenv(kind) {
	case "":
		os.Exit(m.Run())
	case "chatty":
		fmt.Println("Hello, this is not a response and not the place for it. It is a rather long line of text, so that nobody takes it for one.")
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr
	handler := func(ctx context.Context, req *worker.Request) int {
		fmt.Println("handler at work") // to the log
		if len(req.Arguments) == 0 {
			<-ctx.Done()
		}
		fmt.Fprint(req.Output, strings.Join(req.Arguments, "+"))
		return 0
	}
	if err := worker.Serve(context.Background(), os.Stdin, stdout, handler, worker.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

func start(t *testing.T, worker string) *workertest.Client {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), kind+"="+worker)
	c, err := workertest.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestProcess(t *testing.T) {
	ctx := testContext(t)
	c := start(t, "good")
	if err := c.Send(&workerproto.WorkRequest{RequestId: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Do(ctx, &workerproto.WorkRequest{RequestId: 2, Arguments: []string{"a", "b"}})
	if err != nil || got.GetOutput() != "a+b" {
		t.Errorf("response %v, error %v", got, err)
	}
	if err := c.Send(workertest.Cancellation(1)); err != nil {
		t.Fatal(err)
	}
	got, err = c.Wait(ctx, 1)
	if err != nil || !got.GetWasCancelled() {
		t.Errorf("response %v, error %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got, err := c.Receive(ctx); err != io.EOF {
		t.Errorf("response %v, error %v after the end", got, err)
	}
}

func TestChattyProcess(t *testing.T) {
	c := start(t, "chatty")
	if _, err := c.Do(testContext(t), &workerproto.WorkRequest{RequestId: 1, Arguments: []string{"a"}}); err == nil {
		t.Error("no error for text among the responses")
	}
	if err := c.Close(); err == nil {
		t.Error("no error at the end")
	}
}

func TestDeadProcess(t *testing.T) {
	cmd := exec.Command("false")
	c, err := workertest.Start(cmd)
	if err != nil {
		t.Skip(err)
	}
	if _, err := c.Receive(testContext(t)); err != io.EOF {
		t.Errorf("error %v", err)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("error %v", err)
	}
}
