package worker

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// callOverhead is the assumed memory of a request or response besides its encoding, in
	// bytes, so that MaxHeld also bounds their number.
	callOverhead = 2 << 10

	// stopGrace is how long a stopped server waits for its goroutines.
	stopGrace = 2 * time.Second

	// readerGrace is how long it then waits for the reader. A read of a pipe or terminal may
	// never end, and nothing depends on it at this point.
	readerGrace = 20 * time.Millisecond
)

// call is a request in progress. Bazel reuses ids before it has read the response to a
// cancelled request, so the state belongs to the call, never to the id.
type call struct {
	id     int32
	req    *Request
	output *output
	ctx    context.Context
	cancel context.CancelFunc
	size   int64

	waiting   *list.Element // in server.queue; nil when running or done
	cancelled bool
	answered  bool
	grace     *time.Timer // answers a cancelled call whose handler continues
}

type server struct {
	ctx     context.Context
	handler Handler
	opts    Options

	freeMemory func()         // debug.FreeOSMemory, except in tests
	goroutines sync.WaitGroup // all but the reader
	reader     sync.WaitGroup
	flushed    chan struct{} // closed when everything is read, done and written
	failed     chan struct{} // closed when out cannot be written

	logMu sync.Mutex

	mu        sync.Mutex
	changed   sync.Cond         // for the reader and the writer
	active    map[int32][]*call // unanswered, by id, in the order they came
	queue     list.List         // of *call, waiting to run
	running   int               // handlers that have not returned
	alone     bool              // the one running has id 0
	responses []*workResponse
	held      int64
	readDone  bool
	readErr   error
	writeErr  error
	stopped   bool
	idle      *time.Timer
}

func newServer(ctx context.Context, handler Handler, opts Options) *server {
	s := &server{
		ctx:        ctx,
		handler:    handler,
		opts:       opts,
		freeMemory: debug.FreeOSMemory,
		flushed:    make(chan struct{}),
		failed:     make(chan struct{}),
		active:     make(map[int32][]*call),
	}
	s.changed.L = &s.mu
	return s
}

func (s *server) serve(in io.Reader, out io.Writer, cancel context.CancelFunc) error {
	s.mu.Lock()
	s.settle()
	s.mu.Unlock()
	s.reader.Go(func() { s.read(in) })       // unguarded: it reads a stream
	s.goroutines.Go(func() { s.write(out) }) // unguarded: it writes responses

	var err error
	select {
	case <-s.flushed:
		s.goroutines.Wait() // all are at their last line
		s.reader.Wait()
		return s.readErr
	case <-s.failed:
		err = fmt.Errorf("writing work responses: %w", s.writeErr)
	case <-s.ctx.Done():
		err = context.Cause(s.ctx)
	}
	cancel()
	s.stop()
	for _, stream := range []any{in, out} {
		if c, ok := stream.(io.Closer); ok {
			c.Close() // to end a blocked call; its error has no new information
		}
	}
	if ended(&s.goroutines, stopGrace) {
		ended(&s.reader, readerGrace)
	}
	return err
}

// ended waits for a group with a time limit, and reports whether the group ended.
func ended(group *sync.WaitGroup, longest time.Duration) bool {
	done := make(chan struct{})
	// unguarded: it waits
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(longest):
		return false
	}
}

// read reads requests until the input ends. It waits only for input and, if too much memory is
// held, for other requests to finish.
func (s *server) read(in io.Reader) {
	frames := newFrameReader(in, s.opts.MaxRequestSize)
	var err error
	for s.waitForRoom() {
		var m *workRequest
		var size int64
		if m, size, err = frames.next(); err != nil {
			break
		}
		if m.cancel {
			s.cancelRequest(m.ID)
		} else {
			s.admit(m, size)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readDone = true
	if !errors.Is(err, io.EOF) {
		s.readErr = err
	}
	s.settle()
}

// waitForRoom waits until at most MaxHeld bytes are held. It reports whether the server
// continues.
func (s *server) waitForRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held > s.opts.MaxHeld && !s.stopped {
		s.changed.Wait()
	}
	return !s.stopped
}

// admit registers a request before it starts a goroutine for it, because its cancellation may
// already be in the buffer.
func (s *server) admit(m *workRequest, size int64) {
	c := &call{id: m.ID, output: &output{limit: s.opts.MaxOutput}, size: size + callOverhead, req: &m.Request}
	c.req.Output = c.output
	c.ctx, c.cancel = context.WithCancel(s.ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		c.cancel()
		return
	}
	// The peer no longer waits for cancelled requests with this id. Answer them now, so that
	// their responses precede the one to the new request.
	for _, old := range slices.Clone(s.active[c.id]) {
		if old.cancelled {
			s.answer(old, &workResponse{wasCancelled: true})
		}
	}
	s.active[c.id] = append(s.active[c.id], c)
	s.held += c.size
	c.waiting = s.queue.PushBack(c)
	s.dispatch()
	s.settle()
}

// cancelRequest cancels the oldest request with an id that is not yet cancelled, if there is
// one. Each of the others has its own cancellation. A stopped server has cancelled all of them.
func (s *server) cancelRequest(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	i := slices.IndexFunc(s.active[id], func(c *call) bool { return !c.cancelled })
	if i < 0 {
		return
	}
	c := s.active[id][i]
	c.cancelled = true
	c.cancel()
	cancelled := &workResponse{wasCancelled: true}
	switch {
	case c.waiting != nil:
		s.queue.Remove(c.waiting)
		s.release(c)
		s.answer(c, cancelled)
		s.dispatch() // other requests may have waited for it
		s.settle()
	case s.opts.CancelGrace < 0:
		s.answer(c, cancelled)
	default:
		// unguarded: it answers a request
		c.grace = time.AfterFunc(s.opts.CancelGrace, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.answer(c, cancelled)
		})
	}
}

// dispatch starts the requests at the head of the queue that may run now.
func (s *server) dispatch() {
	for e := s.queue.Front(); e != nil; e = s.queue.Front() {
		c := e.Value.(*call)
		if s.alone || c.id == 0 && s.running > 0 || s.opts.MaxRunning > 0 && s.running >= s.opts.MaxRunning {
			return
		}
		s.queue.Remove(e)
		c.waiting = nil
		s.running++
		s.alone = c.id == 0
		s.goroutines.Go(func() { s.run(c) }) // unguarded: the handler's command has a guard
	}
}

// run calls the handler and ensures that the request is answered, however the handler ends.
func (s *server) run(c *call) {
	exitCode, returned := 1, false
	defer func() {
		if !returned {
			s.explain(c, recover())
		}
		s.finish(c, exitCode)
	}()
	exitCode = s.handler(c.ctx, c.req)
	returned = true
}

// explain reports that a handler panicked, or ended its goroutine if cause is nil: in one line
// to the user, and in full to the log.
func (s *server) explain(c *call, cause any) {
	problem := "the request handler returned no result"
	if cause != nil {
		problem = fmt.Sprintf("panic: %v", cause)
	}
	line, _, _ := strings.Cut(problem, "\n")
	fmt.Fprintf(c.output, "internal error: %s (see the worker log)\n", line)
	s.logMu.Lock()
	defer s.logMu.Unlock()
	fmt.Fprintf(s.opts.Log, "work request %d: %s\n%s\n", c.id, problem, debug.Stack())
}

// finish ends a call whose handler has returned.
func (s *server) finish(c *call, exitCode int) {
	c.cancel()
	response := &workResponse{exitCode: int32(exitCode), output: c.output.take()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.alone = false
	s.release(c)
	if c.cancelled {
		response = &workResponse{wasCancelled: true}
	}
	s.answer(c, response)
	s.dispatch()
	s.settle()
}

// release releases the memory of a request that will not run.
func (s *server) release(c *call) {
	c.waiting, c.req = nil, nil
	s.held -= c.size
	s.changed.Broadcast()
}

// answer passes a response to the writer if the call is not yet answered.
func (s *server) answer(c *call, response *workResponse) {
	if c.answered {
		return
	}
	c.answered = true
	if c.grace != nil {
		c.grace.Stop()
	}
	c.output.take() // from this point, output of the handler is lost
	if rest := slices.DeleteFunc(s.active[c.id], func(o *call) bool { return o == c }); len(rest) > 0 {
		s.active[c.id] = rest
	} else {
		delete(s.active, c.id)
	}
	if s.stopped {
		return
	}
	response.id = c.id
	s.responses = append(s.responses, response)
	s.held += responseSize(response)
	s.changed.Broadcast()
}

func responseSize(r *workResponse) int64 {
	return int64(len(r.output)) + callOverhead
}

// settle checks, after work begins or ends, whether the server is idle.
func (s *server) settle() {
	idle := len(s.active) == 0 && s.running == 0
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	if idle && !s.readDone && !s.stopped && s.opts.IdleAfter > 0 {
		s.idle = time.AfterFunc(s.opts.IdleAfter, s.freeMemory) // unguarded: it collects garbage
	}
	if idle && s.readDone {
		s.changed.Broadcast()
	}
}

// write is the only user of out. It writes responses that are ready together in one call.
func (s *server) write(out io.Writer) {
	var frames []byte
	for {
		batch, more := s.nextResponses()
		if !more {
			return
		}
		var written int64
		for _, r := range batch {
			written += responseSize(r)
			frames = r.append(frames)
			if len(frames) < 64<<10 && r != batch[len(batch)-1] {
				continue
			}
			if _, err := out.Write(frames); err != nil {
				s.fail(err)
				return
			}
			frames = frames[:0]
			if cap(frames) > 1<<20 {
				frames = nil
			}
		}
		s.mu.Lock()
		s.held -= written
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// nextResponses waits for responses. It reports false if there will be no more.
func (s *server) nextResponses() ([]*workResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.responses) == 0 && !s.stopped {
		if s.readDone && len(s.active) == 0 && s.running == 0 {
			close(s.flushed)
			return nil, false
		}
		s.changed.Wait()
	}
	batch := s.responses
	s.responses = nil
	return batch, !s.stopped
}

// fail records that out cannot be written.
func (s *server) fail(err error) {
	s.mu.Lock()
	s.writeErr = err
	s.mu.Unlock()
	close(s.failed)
}

// stop makes reader and writer end as soon as they are not blocked, and drops waiting requests.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for e := s.queue.Front(); e != nil; e = s.queue.Front() {
		s.queue.Remove(e)
		s.release(e.Value.(*call))
	}
	for _, calls := range s.active {
		for _, c := range calls {
			c.cancel()
			if c.grace != nil {
				c.grace.Stop()
			}
		}
	}
	clear(s.active)
	s.settle()
	s.changed.Broadcast()
}
