// Package worker speaks Bazel's persistent worker protocol: it reads
// WorkRequests from a stream, runs a handler for each, and writes one
// WorkResponse per request. It serves singleplex and multiplex workers, with
// and without sandboxing, and cancellation, over the protobuf framing (with
// JSON, Bazel drops was_cancelled).
//
// A program that is started with --persistent_worker keeps the real standard
// output for Serve and sends everything else that prints to the log:
//
//	stdout := os.Stdout
//	os.Stdout = os.Stderr
//	err := worker.Serve(ctx, os.Stdin, stdout, handler, worker.Options{Log: os.Stderr})
//
// Duties that only the handler can fulfil: resolve every path under
// Request.SandboxDir, read no file that Request.Inputs does not name, and,
// when its context ends, return soon and make no output visible any more.
package worker

import (
	"context"
	"io"
	"time"
)

// Defaults for Options that are zero.
const (
	DefaultMaxRequestSize = 512 << 20
	DefaultMaxHeld        = 1 << 30
	DefaultMaxOutput      = 4 << 20
	DefaultCancelGrace    = 100 * time.Millisecond
)

// Handler does the work of one request and returns its exit code, 0 for
// success. It runs in a goroutine of its own, beside those of other requests.
//
// ctx ends when Bazel cancels the request and when Serve is stopped. The
// handler should then give up its work and return; what it returns no longer
// matters. A panic of the handler becomes a response with exit code 1; a panic
// in a goroutine that the handler started cannot be caught and ends the
// process.
type Handler func(ctx context.Context, req *Request) (exitCode int)

// Request is one unit of work. The handler may keep and modify it.
type Request struct {
	// ID is Bazel's number of the request, 0 in a singleplex worker. Use it only for logs:
	// Bazel reuses numbers.
	ID int32

	// Arguments are the command line arguments. Bazel has replaced each argument
	// @FILE of the action with the lines of that file.
	Arguments []string

	// Inputs are all files the request may read, in the order of the request.
	Inputs []Input

	// SandboxDir is the directory, relative to the working directory, that contains all paths
	// of the request; empty without multiplex sandboxing.
	SandboxDir string

	// Verbosity is above 0 if the log may contain more details.
	Verbosity int

	// Output takes the text to show to the user; a tool would write it to
	// its standard output and error. Several goroutines may write at once.
	// Bytes past Options.MaxOutput are counted and dropped. After the request
	// has been answered, writes fail with io.ErrClosedPipe.
	Output io.Writer
}

// Input is a file that a request may read.
type Input struct {
	Path   string // as Bazel names it, without SandboxDir
	Digest []byte // opaque, possibly empty
}

// Options are the limits of Serve. The zero value selects the defaults.
type Options struct {
	// MaxRunning is the maximum number of handlers that run at a time; further requests wait in
	// their order. 0 means no limit. A handler that keeps running after its request was
	// cancelled still counts.
	MaxRunning int

	// MaxRequestSize is the maximum encoded size of a request in bytes. A larger one ends Serve
	// with an error.
	MaxRequestSize int64

	// MaxHeld is the maximum memory of unfinished requests and unwritten responses, in bytes of
	// their encoding and a constant for each. Above it, Serve stops reading until enough of
	// them are finished and written. Only a peer that sends without reading responses reaches
	// it, or one with several huge requests.
	MaxHeld int64

	// MaxOutput is the maximum text of one response in bytes.
	MaxOutput int

	// CancelGrace is how long a running handler may take to return after a cancellation, before
	// the request is answered without it. A handler that returns in time does not access files
	// after the response, when Bazel may already have assigned its sandbox to another request.
	// Negative means no time.
	CancelGrace time.Duration

	// IdleAfter is the time without any request after which memory that is
	// no longer used goes back to the operating system. 0 means never.
	IdleAfter time.Duration

	// Log takes the stack traces of panics; nil drops them.
	Log io.Writer
}

func (o Options) withDefaults() Options {
	if o.MaxRequestSize <= 0 {
		o.MaxRequestSize = DefaultMaxRequestSize
	}
	if o.MaxHeld <= 0 {
		o.MaxHeld = DefaultMaxHeld
	}
	if o.MaxOutput <= 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.CancelGrace == 0 {
		o.CancelGrace = DefaultCancelGrace
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}

// Serve answers the requests of in on out until in ends. It then lets the work
// in flight finish, writes its responses and returns nil. If in breaks off
// inside a message or cannot be understood, it does the same and returns an
// error that says where.
//
// Every request gets exactly one response, whatever its handler does. A
// request that is cancelled while it waits is answered at once, one that runs
// when its handler returns, but no later than Options.CancelGrace after the
// cancellation. A cancellation without a request to match is ignored.
// Requests with number 0 (singleplex) run alone, one after the other.
//
// If ctx ends or out cannot be written, Serve ends the contexts of all
// handlers, closes in and out if they are io.Closers (nothing else gets
// a goroutine out of a blocked read or write), gives everything up to two
// seconds to come to an end, and returns the cause. It does not wait for a read
// that goes on after in was closed.
func Serve(ctx context.Context, in io.Reader, out io.Writer, handler Handler, opts Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(ctx, handler, opts.withDefaults())
	return s.serve(in, out, cancel)
}
