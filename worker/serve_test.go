package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/internal/testing/workertest"
	"github.com/rules-offload/rules_offload/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	request  = workerproto.WorkRequest
	response = workerproto.WorkResponse
)

// testContext ends well before the test binary would be killed.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// echo writes its arguments, and exits with their number.
func echo(_ context.Context, req *worker.Request) int {
	fmt.Fprint(req.Output, strings.Join(req.Arguments, " "))
	return len(req.Arguments)
}

// untilCancelled waits for the end of its context.
func untilCancelled(ctx context.Context, _ *worker.Request) int {
	<-ctx.Done()
	return 3
}

func encode(t testing.TB, requests ...*request) []byte {
	t.Helper()
	data, err := workertest.Encode(requests...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t testing.TB, data []byte) []*response {
	t.Helper()
	var responses []*response
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		m := new(response)
		err := protodelim.UnmarshalOptions{MaxSize: math.MaxInt32}.UnmarshalFrom(r, m)
		if err == io.EOF {
			return responses
		}
		if err != nil {
			t.Fatalf("response %d: %v", len(responses), err)
		}
		responses = append(responses, m)
	}
}

func send(t testing.TB, c *workertest.Client, requests ...*request) {
	t.Helper()
	if err := c.Send(requests...); err != nil {
		t.Fatal(err)
	}
}

func wantResponse(t testing.TB, got *response, err error, want *response) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Fatalf("response (-want +got):\n%s", diff)
	}
}

func TestRequestFields(t *testing.T) {
	var got *worker.Request
	handler := func(_ context.Context, req *worker.Request) int {
		got = req
		fmt.Fprintln(req.Output, "done")
		return 7
	}
	m := &request{
		Arguments:  []string{"bundle", "", "-o=größe", "no UTF-8: \xff\xfe"},
		Inputs:     []*workerproto.Input{{Path: "a.o", Digest: []byte("abcd")}, {Path: "no/digest"}},
		RequestId:  -5,
		Verbosity:  10,
		SandboxDir: "__sandbox/1/_main",
	}
	// A field of a newer version of the protocol.
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	var out bytes.Buffer
	if err := worker.Serve(testContext(t), bytes.NewReader(encode(t, m)), &out, handler, worker.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := got.Output.Write([]byte("late")); err != io.ErrClosedPipe {
		t.Errorf("writing after the response: error %v", err)
	}
	got.Output = nil
	want := &worker.Request{
		ID:         -5,
		Arguments:  []string{"bundle", "", "-o=größe", "no UTF-8: \xff\xfe"},
		Inputs:     []worker.Input{{Path: "a.o", Digest: []byte("abcd")}, {Path: "no/digest"}},
		SandboxDir: "__sandbox/1/_main",
		Verbosity:  10,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	responses := decode(t, out.Bytes())
	if len(responses) != 1 {
		t.Fatalf("%d responses", len(responses))
	}
	wantResponse(t, responses[0], nil, &response{ExitCode: 7, Output: "done\n", RequestId: -5})
}

func TestNothingToDo(t *testing.T) {
	var out bytes.Buffer
	if err := worker.Serve(testContext(t), strings.NewReader(""), &out, nil, worker.Options{}); err != nil || out.Len() > 0 {
		t.Errorf("error %v, output %q", err, out.Bytes())
	}
}

func TestSingleplexRunsAlone(t *testing.T) {
	var running atomic.Int32
	var order []int
	handler := func(_ context.Context, req *worker.Request) int {
		n := running.Add(1)
		defer running.Add(-1)
		if req.ID == 0 && n != 1 {
			t.Errorf("%d requests run beside a singleplex one", n-1)
		}
		if req.ID == 0 {
			order = append(order, len(req.Arguments))
		}
		time.Sleep(time.Millisecond)
		return len(req.Arguments)
	}
	var requests []*request
	var args []string
	for range 20 {
		requests = append(requests, &request{RequestId: 1}, &request{RequestId: 2}, &request{Arguments: args})
		args = append(args, "x")
	}
	var out bytes.Buffer
	if err := worker.Serve(testContext(t), bytes.NewReader(encode(t, requests...)), &out, handler, worker.Options{}); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(order) || len(order) != 20 {
		t.Errorf("singleplex requests ran in the order %v", order)
	}
	if n := len(decode(t, out.Bytes())); n != 60 {
		t.Errorf("%d responses to 60 requests", n)
	}
}

func TestMaxRunning(t *testing.T) {
	var running, most atomic.Int32
	handler := func(context.Context, *worker.Request) int {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		return 0
	}
	var requests []*request
	for i := range 50 {
		requests = append(requests, &request{RequestId: int32(i + 1)})
	}
	var out bytes.Buffer
	if err := worker.Serve(testContext(t), bytes.NewReader(encode(t, requests...)), &out, handler, worker.Options{MaxRunning: 3}); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 3 {
		t.Errorf("up to %d requests ran at once, want 3", most.Load())
	}
	if n := len(decode(t, out.Bytes())); n != 50 {
		t.Errorf("%d responses to 50 requests", n)
	}
}

// Bazel can send a request with the ID of a cancelled request before it reads the response to that
// (bazelbuild/bazel#26251).
func TestIDUsedAgainBeforeAcknowledgement(t *testing.T) {
	ctx := testContext(t)
	release := make(chan struct{})
	handler := func(ctx context.Context, req *worker.Request) int {
		if req.Arguments[0] == "first" {
			<-release // deaf to the cancellation
			fmt.Fprint(req.Output, "first")
			return 1
		}
		if ctx.Err() != nil {
			return 99
		}
		fmt.Fprint(req.Output, req.Arguments[0])
		return 2
	}
	c := workertest.Serve(ctx, handler, worker.Options{CancelGrace: time.Hour})
	send(t, c,
		&request{RequestId: 5, Arguments: []string{"first"}},
		workertest.Cancellation(5),
		workertest.Cancellation(5), // one too many
		&request{RequestId: 5, Arguments: []string{"second"}},
	)
	got, err := c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 5, WasCancelled: true})
	got, err = c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 5, ExitCode: 2, Output: "second"})
	// A late cancellation hits neither.
	send(t, c, workertest.Cancellation(5), &request{RequestId: 5, Arguments: []string{"third"}})
	got, err = c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 5, ExitCode: 2, Output: "third"})
	close(release)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got, err := c.Receive(ctx); err != io.EOF {
		t.Errorf("one more response: %v, %v", got, err)
	}
}

// Requests with ids in use, without any cancellation, are against the protocol
// and get their responses all the same.
func TestIDsInUse(t *testing.T) {
	ctx := testContext(t)
	c := workertest.Serve(ctx, untilCancelled, worker.Options{})
	same := &request{RequestId: 1}
	send(t, c, same, same, same, workertest.Cancellation(1), workertest.Cancellation(1), workertest.Cancellation(1))
	for range 3 {
		got, err := c.Receive(ctx)
		wantResponse(t, got, err, &response{RequestId: 1, WasCancelled: true})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Thousands of cancellations, each in the same read as its request.
func TestCancelStorm(t *testing.T) {
	const n = 5000
	spin := func(ctx context.Context, _ *worker.Request) int {
		for start := time.Now(); time.Since(start) < 100*time.Microsecond; {
		}
		return 0
	}
	for _, test := range []struct {
		name       string
		handler    worker.Handler
		opts       worker.Options
		id         func(i int) int32
		cancelAll  bool // otherwise every second
		cancelLate bool // all cancellations behind all requests
	}{
		{name: "each waits", handler: untilCancelled, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true},
		{name: "each waits, late", handler: untilCancelled, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true, cancelLate: true},
		{name: "two run", handler: untilCancelled, opts: worker.Options{MaxRunning: 2}, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true},
		{name: "two run, late", handler: untilCancelled, opts: worker.Options{MaxRunning: 2}, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true, cancelLate: true},
		{name: "no grace", handler: untilCancelled, opts: worker.Options{CancelGrace: -1}, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true},
		{name: "same id", handler: untilCancelled, id: func(int) int32 { return 1 }, cancelAll: true},
		{name: "singleplex", handler: untilCancelled, id: func(int) int32 { return 0 }, cancelAll: true},
		{name: "deaf", handler: spin, id: func(i int) int32 { return int32(i + 1) }, cancelAll: true},
		{name: "deaf, half", handler: spin, opts: worker.Options{MaxRunning: 2}, id: func(i int) int32 { return int32(i + 1) }},
		{name: "deaf, half, same ids", handler: spin, opts: worker.Options{MaxRunning: 2, CancelGrace: -1}, id: func(i int) int32 { return int32(i%3 + 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests, late []*request
			want := map[int32]int{}
			cancels := 0
			for i := range n {
				id := test.id(i)
				want[id]++
				requests = append(requests, &request{RequestId: id, Arguments: []string{"x"}})
				if test.cancelAll || i%2 == 0 {
					cancels++
					if test.cancelLate {
						late = append(late, workertest.Cancellation(id))
					} else {
						requests = append(requests, workertest.Cancellation(id))
					}
				}
			}
			var out bytes.Buffer
			in := bytes.NewReader(encode(t, append(requests, late...)...))
			if err := worker.Serve(testContext(t), in, &out, test.handler, test.opts); err != nil {
				t.Fatal(err)
			}
			got := map[int32]int{}
			cancelled := 0
			for _, r := range decode(t, out.Bytes()) {
				got[r.GetRequestId()]++
				if r.GetWasCancelled() {
					cancelled++
				}
			}
			if !maps.Equal(want, got) {
				t.Errorf("not exactly one response for each request: %v", cmp.Diff(want, got))
			}
			if cancelled > cancels || test.cancelAll && strings.HasPrefix(test.name, "each") && cancelled != n {
				t.Errorf("%d cancellations, %d cancelled", cancels, cancelled)
			}
		})
	}
}

// Cancellations are answered while handlers that do not listen keep every core
// busy.
func TestCancelWhileBusy(t *testing.T) {
	ctx := testContext(t)
	var release atomic.Bool
	var started sync.WaitGroup
	busy := 4 * runtime.GOMAXPROCS(0)
	started.Add(busy)
	handler := func(context.Context, *worker.Request) int {
		started.Done()
		for !release.Load() {
		}
		return 0
	}
	c := workertest.Serve(ctx, handler, worker.Options{MaxRunning: busy})
	for i := range 2 * busy { // half of them wait
		send(t, c, &request{RequestId: int32(i + 1)})
	}
	started.Wait()
	start := time.Now()
	for i := range 2 * busy {
		send(t, c, workertest.Cancellation(int32(i+1)))
	}
	for i := range 2 * busy {
		got, err := c.Wait(ctx, int32(i+1))
		wantResponse(t, got, err, &response{RequestId: int32(i + 1), WasCancelled: true})
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the responses took %v", took)
	}
	release.Store(true)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestCancelGrace(t *testing.T) {
	for _, test := range []struct {
		name    string
		opts    worker.Options
		handler worker.Handler
		want    time.Duration
	}{
		{"handler returns at once", worker.Options{}, untilCancelled, 0},
		{"handler returns in time", worker.Options{}, func(ctx context.Context, _ *worker.Request) int {
			<-ctx.Done()
			time.Sleep(30 * time.Millisecond)
			return 0
		}, 30 * time.Millisecond},
		{"handler is deaf", worker.Options{}, func(context.Context, *worker.Request) int {
			time.Sleep(time.Hour)
			return 0
		}, worker.DefaultCancelGrace},
		{"no grace", worker.Options{CancelGrace: -1}, func(context.Context, *worker.Request) int {
			time.Sleep(time.Hour)
			return 0
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := workertest.Serve(t.Context(), test.handler, test.opts)
				send(t, c, &request{RequestId: 1})
				synctest.Wait()
				start := time.Now()
				send(t, c, workertest.Cancellation(1))
				got, err := c.Receive(t.Context())
				wantResponse(t, got, err, &response{RequestId: 1, WasCancelled: true})
				if took := time.Since(start); took != test.want {
					t.Errorf("answered after %v, want %v", took, test.want)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Writes of a handler fail after its request was answered without it.
func TestOutputAfterCancellation(t *testing.T) {
	ctx := testContext(t)
	release, wrote := make(chan struct{}), make(chan error, 1)
	handler := func(_ context.Context, req *worker.Request) int {
		<-release
		_, err := req.Output.Write([]byte("late"))
		wrote <- err
		return 0
	}
	c := workertest.Serve(ctx, handler, worker.Options{CancelGrace: -1})
	send(t, c, &request{RequestId: 1}, workertest.Cancellation(1))
	got, err := c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 1, WasCancelled: true})
	close(release)
	if err := <-wrote; err != io.ErrClosedPipe {
		t.Errorf("error %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A cancelled request no longer blocks the requests that wait for it.
func TestCancelledHeadOfQueue(t *testing.T) {
	ctx := testContext(t)
	handler := func(ctx context.Context, req *worker.Request) int {
		if req.ID == 1 {
			<-ctx.Done()
		}
		return 0
	}
	c := workertest.Serve(ctx, handler, worker.Options{})
	send(t, c, &request{RequestId: 1}, &request{RequestId: 0}, &request{RequestId: 2}, workertest.Cancellation(0))
	got, err := c.Receive(ctx)
	wantResponse(t, got, err, &response{WasCancelled: true})
	got, err = c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 2})
	send(t, c, workertest.Cancellation(1))
	got, err = c.Receive(ctx)
	wantResponse(t, got, err, &response{RequestId: 1, WasCancelled: true})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestPanic(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler worker.Handler
		output  string
		log     string
	}{
		{
			"with an error",
			func(context.Context, *worker.Request) int { panic(errors.New("no such\nluck")) },
			"internal error: panic: no such (see the worker log)\n",
			"work request 4: panic: no such\nluck\n",
		},
		{
			"of the runtime",
			func(context.Context, *worker.Request) int { return []int{}[len("x")] },
			"internal error: panic: runtime error: index out of range [1] with length 0 (see the worker log)\n",
			"serve_test.go:",
		},
		{
			"nil",
			func(context.Context, *worker.Request) int { panic(nil) },
			"internal error: panic: panic called with nil argument (see the worker log)\n",
			"serve_test.go:",
		},
		{
			"goroutine ended",
			func(context.Context, *worker.Request) int { runtime.Goexit(); return 0 },
			"internal error: the request handler returned no result (see the worker log)\n",
			"runtime.Goexit",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, log bytes.Buffer
			in := bytes.NewReader(encode(t, &request{RequestId: 4}))
			if err := worker.Serve(testContext(t), in, &out, test.handler, worker.Options{Log: &log}); err != nil {
				t.Fatal(err)
			}
			responses := decode(t, out.Bytes())
			if len(responses) != 1 {
				t.Fatalf("%d responses", len(responses))
			}
			wantResponse(t, responses[0], nil, &response{RequestId: 4, ExitCode: 1, Output: test.output})
			if !strings.Contains(log.String(), test.log) || !strings.Contains(log.String(), "goroutine ") {
				t.Errorf("log:\n%s", log.String())
			}
		})
	}
}

func TestLargeRequests(t *testing.T) {
	args := make([]string, 64)
	for i := range args {
		args[i] = strings.Repeat(string(rune('a'+i%26)), 1<<20)
	}
	handler := func(_ context.Context, req *worker.Request) int {
		n := 0
		for i, a := range req.Arguments {
			if a != args[i] {
				t.Errorf("argument %d is not as sent", i)
			}
			n += len(a)
		}
		return n >> 20
	}
	ctx := testContext(t)
	c := workertest.Serve(ctx, handler, worker.Options{})
	for i := range 3 {
		got, err := c.Do(ctx, &request{RequestId: int32(i + 1), Arguments: args})
		wantResponse(t, got, err, &response{RequestId: int32(i + 1), ExitCode: 64})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	for _, test := range []struct{ name, write, want string }{
		{"at the limit", "0123456789", "0123456789"},
		{"above the limit", "01234567\nabc", "01234567\na\n(2 more bytes of output are not shown)\n"},
		{"cut inside a letter", "012345678é", "012345678\uFFFD\n(1 more bytes of output are not shown)\n"},
		{"not UTF-8", "a\xff\xfeb", "a\uFFFDb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler := func(_ context.Context, req *worker.Request) int {
				for i := range len(test.write) {
					if n, err := req.Output.Write([]byte{test.write[i]}); n != 1 || err != nil {
						t.Errorf("writing: %d, %v", n, err)
					}
				}
				return 0
			}
			var out bytes.Buffer
			in := bytes.NewReader(encode(t, &request{RequestId: 1}))
			if err := worker.Serve(testContext(t), in, &out, handler, worker.Options{MaxOutput: 10}); err != nil {
				t.Fatal(err)
			}
			wantResponse(t, decode(t, out.Bytes())[0], nil, &response{RequestId: 1, Output: test.want})
		})
	}
}

// Responses of very different sizes, finished at the same time, do not mix.
func TestResponsesDoNotMix(t *testing.T) {
	handler := func(_ context.Context, req *worker.Request) int {
		text := []byte(fmt.Sprintf("%d;", req.ID))
		for range int(req.ID) * 37 {
			req.Output.Write(text)
		}
		return int(req.ID)
	}
	ctx := testContext(t)
	c := workertest.Serve(ctx, handler, worker.Options{})
	const n = 300
	for i := range n {
		send(t, c, &request{RequestId: int32(i + 1)})
	}
	for i := range n {
		id := int32(i + 1)
		got, err := c.Wait(ctx, id)
		wantResponse(t, got, err, &response{
			RequestId: id, ExitCode: id, Output: strings.Repeat(fmt.Sprintf("%d;", id), int(id)*37),
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestEndOfInputDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := func(ctx context.Context, req *worker.Request) int {
			select {
			case <-time.After(time.Minute):
				return int(req.ID)
			case <-ctx.Done():
				return 99
			}
		}
		var requests []*request
		for i := range 10 {
			requests = append(requests, &request{RequestId: int32(i + 1)})
		}
		var out bytes.Buffer
		if err := worker.Serve(t.Context(), bytes.NewReader(encode(t, requests...)), &out, handler, worker.Options{MaxRunning: 4}); err != nil {
			t.Fatal(err)
		}
		responses := decode(t, out.Bytes())
		for _, r := range responses {
			if r.GetExitCode() != r.GetRequestId() {
				t.Errorf("exit code %d for request %d", r.GetExitCode(), r.GetRequestId())
			}
		}
		if len(responses) != 10 {
			t.Errorf("%d responses to 10 requests", len(responses))
		}
	})
}

func TestBrokenInput(t *testing.T) {
	good := encode(t, &request{RequestId: 1, Arguments: []string{"a"}})
	long := encode(t, &request{RequestId: 2, Arguments: []string{strings.Repeat("x", 300<<10)}})
	at := fmt.Sprintf("work request 2 at byte 0x%x of the input: ", len(good))
	for _, test := range []struct {
		name string
		tail []byte
		want string
		is   error
	}{
		{"ends in the length", []byte{0x80}, at + "unexpected EOF", io.ErrUnexpectedEOF},
		{"ends behind the length", []byte{0x05}, at + "the input ends after 0 of 5 bytes: unexpected EOF", io.ErrUnexpectedEOF},
		{"ends in a message", long[:len(long)-1], at + "the input ends after 307205 of 307206 bytes: unexpected EOF", io.ErrUnexpectedEOF},
		{"ends early in a message", long[:100<<10], at + "the input ends after 102397 of 307206 bytes: unexpected EOF", io.ErrUnexpectedEOF},
		{"message too large", encode(t, &request{Arguments: []string{strings.Repeat("x", 1<<20)}}), at + "its length 1048580 is above the limit of 1048576 bytes", nil},
		{"length of 64 bits", slices.Concat(bytes.Repeat([]byte{0xff}, 9), []byte{1}), at + "its length 18446744073709551615 is above the limit of 1048576 bytes", nil},
		{"length of 65 bits", slices.Concat(bytes.Repeat([]byte{0xff}, 9), []byte{2}), at + "its length is not a varint of 64 bits", nil},
		{"length without end", bytes.Repeat([]byte{0x80}, 20), at + "its length is not a varint of 64 bits", nil},
		{"not a message", []byte("\x04!!!!"), at, nil},
		{"text", []byte("Hello, worker, this is not a protocol buffer at all, is it? It is long enough to be one"), at, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			handler := func(ctx context.Context, req *worker.Request) int {
				time.Sleep(time.Millisecond) // still at work when the input breaks
				return echo(ctx, req)
			}
			err := worker.Serve(testContext(t), bytes.NewReader(slices.Concat(good, test.tail)), &out, handler, worker.Options{MaxRequestSize: 1 << 20})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v is not %v", err, test.is)
			}
			responses := decode(t, out.Bytes())
			if len(responses) != 1 {
				t.Fatalf("%d responses", len(responses))
			}
			wantResponse(t, responses[0], nil, &response{RequestId: 1, ExitCode: 1, Output: "a"})
		})
	}
}

// failingReader gives data, then an error.
type failingReader struct {
	data io.Reader
	err  error
}

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.data.Read(p)
	if err == io.EOF {
		err = r.err
	}
	return n, err
}

func TestReadError(t *testing.T) {
	boom := errors.New("boom")
	var out bytes.Buffer
	in := failingReader{bytes.NewReader(encode(t, &request{RequestId: 1})), boom}
	if err := worker.Serve(testContext(t), in, &out, echo, worker.Options{}); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if n := len(decode(t, out.Bytes())); n != 1 {
		t.Errorf("%d responses", n)
	}
}

// A length that promises much costs nothing until the bytes arrive.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	in := protowire.AppendVarint(nil, 500<<20)
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	if err := worker.Serve(testContext(t), bytes.NewReader(in), io.Discard, echo, worker.Options{}); err == nil {
		t.Error("no error")
	}
	if n := allocated() - before; n > 8<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// While nobody reads the responses, requests and cancellations are still taken
// in, up to a limit; when reading goes on, all is answered.
func TestReaderStopsAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxHeld, size = 1 << 20, 10 << 10
		text := bytes.Repeat([]byte("x"), size)
		var cancelled atomic.Bool
		handler := func(ctx context.Context, req *worker.Request) int {
			if req.ID == 1 {
				<-ctx.Done()
				cancelled.Store(true)
				return 0
			}
			req.Output.Write(text)
			return 0
		}
		requests, in := io.Pipe()
		out, responses := io.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- worker.Serve(t.Context(), requests, responses, handler, worker.Options{MaxHeld: maxHeld})
			responses.Close()
		}()
		in.Write(encode(t, &request{RequestId: 1}, &request{RequestId: 2}))
		synctest.Wait() // the response to 2 is stuck in the pipe
		in.Write(encode(t, workertest.Cancellation(1)))
		synctest.Wait()
		if !cancelled.Load() {
			t.Error("a blocked output holds up cancellations")
		}
		const n = 1000
		var sent atomic.Int32
		next := make(chan struct{})
		go func() {
			for i := range n {
				<-next
				in.Write(encode(t, &request{RequestId: int32(i + 3)}))
				sent.Add(1)
			}
			in.Close()
		}()
		// Requests one after another, each answered before the next, until the reader stops.
		taken := int32(0)
		for ; sent.Load() == taken && taken < n; taken++ {
			next <- struct{}{}
			synctest.Wait()
		}
		if s := sent.Load(); s < 80 || s > maxHeld/size+64 {
			t.Errorf("%d requests taken in while nobody reads", s)
		}
		close(next)
		data, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(decode(t, data)); got != n+2 {
			t.Errorf("%d responses to %d requests", got, n+2)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestReaderNeverResumes(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		end  func(cancel context.CancelCauseFunc, out *io.PipeReader)
		want error
	}{
		{"context ends", func(cancel context.CancelCauseFunc, _ *io.PipeReader) { cancel(boom) }, boom},
		{"pipe is closed", func(_ context.CancelCauseFunc, out *io.PipeReader) { out.Close() }, io.ErrClosedPipe},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				requests, in := io.Pipe()
				out, responses := io.Pipe()
				served := make(chan error, 1)
				var handlers atomic.Int32
				handler := func(ctx context.Context, req *worker.Request) int {
					handlers.Add(1)
					defer handlers.Add(-1)
					if req.ID > 10 {
						<-ctx.Done()
					}
					return 0
				}
				go func() { served <- worker.Serve(ctx, requests, responses, handler, worker.Options{MaxRunning: 5}) }()
				for i := range 30 {
					in.Write(encode(t, &request{RequestId: int32(i + 1)}))
				}
				synctest.Wait()
				if handlers.Load() != 5 {
					t.Errorf("%d handlers run", handlers.Load())
				}
				start := time.Now()
				test.end(cancel, out)
				if err := <-served; !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("it took %v", took)
				}
				if n := handlers.Load(); n != 0 {
					t.Errorf("%d handlers are left", n)
				}
			})
		})
	}
}

// Streams that cannot be closed and a deaf handler do not keep Serve from
// returning.
func TestStopWithNothingToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		requests, in := io.Pipe()
		handler := func(context.Context, *worker.Request) int {
			time.Sleep(time.Hour)
			return 0
		}
		served := make(chan error, 1)
		go func() {
			served <- worker.Serve(ctx, struct{ io.Reader }{requests}, struct{ io.Writer }{io.Discard}, handler, worker.Options{})
		}()
		in.Write(encode(t, &request{RequestId: 1}))
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-served; err != context.Canceled {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		in.Close()
		time.Sleep(2 * time.Hour) // lets the handler return
	})
}

// The streams of a real worker are pipes of the operating system.
func TestOSPipes(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	requests, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, responses, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	served := make(chan error, 1)
	go func() { served <- worker.Serve(ctx, requests, responses, echo, worker.Options{}) }()
	// Far more data than fits into a pipe that has no reader.
	big := &request{RequestId: 1, Arguments: []string{strings.Repeat("x", 1<<20)}}
	if _, err := in.Write(encode(t, big, big, big)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

// Every schedule of requests and cancellations leads to one response for each request, with its ID.
func TestSchedules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.Int32Range(0, rapid.SampledFrom([]int32{1, 3, 50}).Draw(rt, "largest id"))
		opts := worker.Options{
			MaxRunning:  rapid.IntRange(0, 3).Draw(rt, "MaxRunning"),
			MaxHeld:     rapid.SampledFrom([]int64{0, 1, 10_000}).Draw(rt, "MaxHeld"),
			CancelGrace: rapid.SampledFrom([]time.Duration{-1, time.Microsecond, time.Millisecond}).Draw(rt, "CancelGrace"),
		}
		var pieces [][]byte
		sent, cancels := map[int32]int{}, map[int32]int{}
		for range rapid.IntRange(1, 20).Draw(rt, "pieces") {
			var piece []*request
			for range rapid.IntRange(0, 20).Draw(rt, "messages") {
				id := ids.Draw(rt, "id")
				if rapid.Bool().Draw(rt, "cancel") {
					cancels[id]++
					piece = append(piece, workertest.Cancellation(id))
				} else {
					sent[id]++
					how := rapid.SampledFrom([]string{"quick", "slow", "deaf", "panic"}).Draw(rt, "how")
					piece = append(piece, &request{RequestId: id, Arguments: []string{how}})
				}
			}
			pieces = append(pieces, encode(t, piece...))
		}
		handler := func(ctx context.Context, req *worker.Request) int {
			fmt.Fprintf(req.Output, "%d", req.ID)
			switch req.Arguments[0] {
			case "slow":
				select {
				case <-ctx.Done():
				case <-time.After(500 * time.Microsecond):
				}
			case "deaf":
				time.Sleep(200 * time.Microsecond)
			case "panic":
				panic("as asked")
			}
			return 0
		}
		requests, in := io.Pipe()
		go func() {
			for _, p := range pieces {
				in.Write(p)
			}
			in.Close()
		}()
		var out bytes.Buffer
		if err := worker.Serve(testContext(t), requests, &out, handler, opts); err != nil {
			rt.Fatal(err)
		}
		got := map[int32]int{}
		for _, r := range decode(t, out.Bytes()) {
			id := r.GetRequestId()
			got[id]++
			if r.GetWasCancelled() {
				cancels[id]--
			} else if !strings.HasPrefix(r.GetOutput(), fmt.Sprint(id)) {
				rt.Errorf("response %d has the output of another: %q", id, r.GetOutput())
			}
			if cancels[id] < 0 {
				rt.Errorf("request %d was cancelled by nobody", id)
			}
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			rt.Errorf("responses by id (-want +got):\n%s", diff)
		}
	})
}

// No input causes a panic, and each readable request gets one response.
func FuzzServe(f *testing.F) {
	one := encode(f, &request{RequestId: 1, Arguments: []string{"a"}, Inputs: []*workerproto.Input{{Path: "p", Digest: []byte("d")}}})
	f.Add(one)
	f.Add(slices.Concat(one, encode(f, workertest.Cancellation(1)), one, []byte{0}))
	f.Add(one[:len(one)-1])
	f.Add(bytes.Repeat([]byte{0xff}, 12))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := 0
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			m := new(request)
			if err := (protodelim.UnmarshalOptions{MaxSize: 1 << 20}).UnmarshalFrom(r, m); err != nil {
				break
			}
			if !m.GetCancel() {
				want++
			}
		}
		var out bytes.Buffer
		err := worker.Serve(testContext(t), bytes.NewReader(data), &out, echo, worker.Options{MaxRequestSize: 1 << 20})
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %q", err)
		}
		if got := len(decode(t, out.Bytes())); got != want {
			t.Errorf("%d responses, want %d", got, want)
		}
	})
}

func BenchmarkServe(b *testing.B) {
	m := &request{RequestId: 1, Arguments: []string{"bundle", "-o", "out"}}
	for i := range 50 {
		m.Inputs = append(m.Inputs, &workerproto.Input{Path: fmt.Sprintf("bazel-out/k8-fastbuild/bin/math/gemm%d.o", i), Digest: bytes.Repeat([]byte("a"), 64)})
	}
	frame := encode(b, m)
	b.SetBytes(int64(proto.Size(m)))
	requests, in := io.Pipe()
	go func() {
		for range b.N {
			in.Write(frame)
		}
		in.Close()
	}()
	if err := worker.Serve(context.Background(), requests, io.Discard, echo, worker.Options{MaxRunning: 4}); err != nil {
		b.Fatal(err)
	}
}
