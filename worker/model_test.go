package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/internal/testing/workertest"
	"github.com/rules-offload/rules_offload/worker"
)

// modelStep is one event of a worker: what Bazel, a handler, the owner of the context or the clock does.
type modelStep struct {
	do   string
	id   int32 // of request and cancel
	deaf bool  // whether the handler of the request ignores cancellation
	nth  int   // of return: which of the running handlers
}

// modelCall is a request as the model sees it.
type modelCall struct {
	number    int32 // the exit code of its handler
	id        int32
	deaf      bool
	cancelled bool
	answered  bool
	release   chan struct{} // closed for the handler to return
}

// workerModel is what a worker does by the documentation of Serve, one event after another.
type workerModel struct {
	maxRunning int
	grace      time.Duration
	calls      []*modelCall
	queue      []*modelCall
	running    []*modelCall
	responses  []string
	stopped    bool
	ended      bool // of the input
}

func (m *workerModel) answer(c *modelCall) {
	if c.answered {
		return
	}
	c.answered = true
	code := c.number
	if c.cancelled {
		code = 0
	}
	if !m.stopped {
		m.responses = append(m.responses, modelResponse(c.id, code, c.cancelled))
	}
}

func modelResponse(id, exitCode int32, cancelled bool) string {
	return fmt.Sprintf("id %d, exit code %d, cancelled %t", id, exitCode, cancelled)
}

func (m *workerModel) dispatch() {
	for len(m.queue) > 0 {
		c := m.queue[0]
		switch n := len(m.running); {
		case n > 0 && (c.id == 0 || m.running[0].id == 0), m.maxRunning > 0 && n >= m.maxRunning:
			return
		}
		m.queue = m.queue[1:]
		m.running = append(m.running, c)
	}
}

func (m *workerModel) request(c *modelCall) {
	if m.stopped {
		return
	}
	for _, old := range m.calls {
		if old.id == c.id && old.cancelled {
			m.answer(old)
		}
	}
	m.calls = append(m.calls, c)
	m.queue = append(m.queue, c)
	m.dispatch()
}

func (m *workerModel) cancel(id int32) {
	i := slices.IndexFunc(m.calls, func(c *modelCall) bool { return c.id == id && !c.answered && !c.cancelled })
	if i < 0 || m.stopped {
		return
	}
	c := m.calls[i]
	c.cancelled = true
	if at := slices.Index(m.queue, c); at >= 0 {
		m.queue = slices.Delete(m.queue, at, at+1)
		m.answer(c)
		m.dispatch()
		return
	}
	if !c.deaf {
		m.returned(c)
	} else if m.grace < 0 {
		m.answer(c)
	}
}

// returned ends the handler of a call.
func (m *workerModel) returned(c *modelCall) {
	m.running = slices.DeleteFunc(m.running, func(o *modelCall) bool { return o == c })
	m.answer(c)
	m.dispatch()
}

// pass lets more time than the grace of cancellations pass.
func (m *workerModel) pass() {
	for _, c := range m.calls {
		if c.cancelled {
			m.answer(c)
		}
	}
}

// late returns those of responses that calls without one can have got.
func (m *workerModel) late(responses []string) []string {
	var possible []string
	for _, c := range m.calls {
		if c.answered || c.deaf {
			continue
		}
		c.answered = true
		response := modelResponse(c.id, c.number, false)
		if c.cancelled {
			response = modelResponse(c.id, 0, true)
		}
		if slices.Contains(responses, response) {
			possible = append(possible, response)
		}
	}
	slices.SortFunc(possible, func(a, b string) int { return slices.Index(responses, a) - slices.Index(responses, b) })
	return possible
}

func (m *workerModel) stop() {
	m.stopped = true
	m.queue = nil
	m.running = slices.DeleteFunc(m.running, func(c *modelCall) bool { return !c.deaf })
}

// done reports whether Serve has returned, or returns after its grace.
func (m *workerModel) done() bool {
	return m.stopped || m.ended && len(m.queue) == 0 && len(m.running) == 0
}

// stream is an input that cannot be closed from the side of the reader, and to which messages can be
// appended while nobody reads.
type stream struct {
	mu    sync.Mutex
	cond  sync.Cond
	data  bytes.Buffer
	ended bool
}

func newStream() *stream {
	s := &stream{}
	s.cond.L = &s.mu
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.data.Len() == 0 && !s.ended {
		s.cond.Wait()
	}
	return s.data.Read(p)
}

func (s *stream) append(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Write(data)
	s.cond.Broadcast()
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Broadcast()
}

// sink is an output that can be made to fail.
type sink struct {
	mu   sync.Mutex
	data bytes.Buffer
	fail error
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, s.fail
	}
	return s.data.Write(p)
}

func (s *sink) breakDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *sink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.data.Bytes())
}

// A worker does what the model does, with requests, cancellations, ends of handlers, of the input, of
// the output and of the context in any order: also with those that arrive after a stop.
func TestModel(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelStep {
		return modelStep{
			do: rapid.SampledFrom([]string{
				"request", "request", "request", "request", "cancel", "cancel", "cancel", "return", "return", "pass", "stop", "end", "break",
			}).Draw(t, "do"),
			id:   rapid.Int32Range(0, 2).Draw(t, "id"),
			deaf: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "deaf"),
			nth:  rapid.IntRange(0, 3).Draw(t, "nth"),
		}
	}), 1, 30)
	rapid.Check(t, func(rt *rapid.T) {
		opts := worker.Options{
			MaxRunning:  rapid.IntRange(0, 2).Draw(rt, "MaxRunning"),
			CancelGrace: rapid.SampledFrom([]time.Duration{-1, time.Minute}).Draw(rt, "CancelGrace"),
			IdleAfter:   time.Hour,
		}
		script := steps.Draw(rt, "steps")
		var problem error
		synctest.Test(t, func(t *testing.T) { problem = runModel(t, opts, script) })
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

// A stop drops the requests that wait. Their cancellations, which may already be in the buffer of the
// reader, have no effect.
func TestCancellationsAfterStop(t *testing.T) {
	for _, ids := range [][]int32{{1, 2, 3}, {1, 0, 3}, {0, 1, 2}} {
		var script []modelStep
		for _, id := range ids {
			script = append(script, modelStep{do: "request", id: id, deaf: true})
		}
		script = append(script, modelStep{do: "stop"}, modelStep{do: "cancel", id: ids[1]})
		synctest.Test(t, func(t *testing.T) {
			if err := runModel(t, worker.Options{MaxRunning: 1, CancelGrace: time.Hour}, script); err != nil {
				t.Error(err)
			}
		})
	}
}

// runModel runs a script on a worker and on the model, compares them after each step, and ends both.
// Goroutines that remain fail the bubble of the test.
func runModel(t *testing.T, opts worker.Options, script []modelStep) error {
	stopped, broken := errors.New("stopped"), errors.New("broken")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	in, out := newStream(), &sink{}
	m := &workerModel{maxRunning: opts.MaxRunning, grace: opts.CancelGrace}

	var mu sync.Mutex
	all := map[int32]*modelCall{}
	handler := func(ctx context.Context, req *worker.Request) int {
		mu.Lock()
		c := all[int32(len(req.Arguments))]
		mu.Unlock()
		if c.deaf {
			<-c.release
			return int(c.number)
		}
		select {
		case <-c.release:
		case <-ctx.Done():
		}
		return int(c.number)
	}
	served := make(chan error, 1)
	go func() { served <- worker.Serve(ctx, in, out, handler, opts) }()

	wantErr := error(nil)
	check := func(step int, do string) error {
		synctest.Wait()
		var got []string
		for _, r := range decode(t, out.bytes()) {
			got = append(got, modelResponse(r.GetRequestId(), r.GetExitCode(), r.GetWasCancelled()))
		}
		if do == "stop" && len(got) > len(m.responses) {
			// Handlers that return because the context ends can still be answered.
			m.responses = append(m.responses, m.late(got[len(m.responses):])...)
		}
		if !slices.Equal(got, m.responses) {
			return fmt.Errorf("step %d (%s): responses\n%q, want\n%q", step, do, got, m.responses)
		}
		return nil
	}
	var number int32
	err := func() error {
		for i, step := range script {
			switch step.do {
			case "request":
				if m.ended {
					continue
				}
				number++
				c := &modelCall{number: number, id: step.id, deaf: step.deaf, release: make(chan struct{})}
				mu.Lock()
				all[number] = c
				mu.Unlock()
				m.request(c)
				in.append(encode(t, &request{RequestId: step.id, Arguments: slices.Repeat([]string{"x"}, int(number))}))
			case "cancel":
				if m.ended {
					continue
				}
				m.cancel(step.id)
				in.append(encode(t, workertest.Cancellation(step.id)))
			case "return":
				if len(m.running) == 0 {
					continue
				}
				c := m.running[step.nth%len(m.running)]
				close(c.release)
				m.returned(c)
			case "pass":
				time.Sleep(2 * time.Minute)
				m.pass()
			case "stop":
				if !m.done() {
					m.stop()
					wantErr = stopped
				}
				cancel(stopped)
			case "end":
				m.ended = true
				in.end()
			case "break":
				// The server notices it at the next response.
				if len(m.responses) == 0 || m.done() {
					continue
				}
				before := len(m.responses)
				if len(m.running) == 0 {
					continue
				}
				out.breakDown(broken)
				c := m.running[step.nth%len(m.running)]
				answered := c.answered
				m.running = slices.DeleteFunc(m.running, func(o *modelCall) bool { return o == c })
				if answered {
					out.breakDown(nil) // there is no response to it
					close(c.release)
					m.dispatch()
					break
				}
				c.answered = true
				close(c.release)
				m.stop()
				m.responses = m.responses[:before]
				wantErr = broken
			}
			if err := check(i, step.do); err != nil {
				return err
			}
		}
		return nil
	}()
	// Everything ends, whatever the state.
	in.end()
	m.ended = true
	mu.Lock()
	for _, c := range all {
		select {
		case <-c.release:
		default:
			close(c.release)
		}
	}
	mu.Unlock()
	if got := <-served; !errors.Is(got, wantErr) || wantErr == nil && got != nil {
		err = errors.Join(err, fmt.Errorf("Serve returned %v, want %v", got, wantErr))
	}
	if err == nil && !m.stopped {
		counts := map[int32]int{}
		for _, c := range m.calls {
			counts[c.id]++
		}
		for _, r := range decode(t, out.bytes()) {
			counts[r.GetRequestId()]--
		}
		for id, n := range counts {
			if n != 0 {
				err = errors.Join(err, fmt.Errorf("id %d: %d requests without exactly one response", id, n))
			}
		}
	}
	return err
}
