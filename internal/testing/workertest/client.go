// Package workertest is a client for persistent workers, in place of Bazel: it starts a worker,
// in a process or in memory, sends requests and cancellations, and collects the responses.
package workertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/rules-offload/rules_offload/internal/testing/workerproto"
	"github.com/rules-offload/rules_offload/worker"
)

// Client is connected to one worker. It is safe for concurrent use.
type Client struct {
	sendMu sync.Mutex
	in     io.WriteCloser
	wait   func() error

	mu        sync.Mutex
	arrived   chan struct{} // closed and replaced when something arrives
	responses []*workerproto.WorkResponse
	readErr   error
	ended     chan struct{} // closed with readErr set
}

// Serve runs worker.Serve in memory until ctx ends or the client is closed.
func Serve(ctx context.Context, handler worker.Handler, opts worker.Options) *Client {
	requests, in := io.Pipe()
	out, responses := io.Pipe()
	served := make(chan error, 1)
	// unguarded: a test
	go func() {
		served <- worker.Serve(ctx, requests, responses, handler, opts)
		requests.Close()
		responses.Close()
	}()
	return connect(in, out, func() error { return <-served })
}

// Start starts cmd, which must run as a persistent worker. It does not change the standard
// error of cmd.
func Start(cmd *exec.Cmd) (*Client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return connect(in, out, cmd.Wait), nil
}

func connect(in io.WriteCloser, out io.Reader, wait func() error) *Client {
	c := &Client{in: in, wait: wait, arrived: make(chan struct{}), ended: make(chan struct{})}
	go c.read(out) // unguarded: a test
	return c
}

func (c *Client) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		response := new(workerproto.WorkResponse)
		err := protodelim.UnmarshalOptions{MaxSize: math.MaxInt32}.UnmarshalFrom(r, response)
		c.mu.Lock()
		if err == nil {
			c.responses = append(c.responses, response)
		} else {
			c.readErr = err
			close(c.ended)
		}
		close(c.arrived)
		c.arrived = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			io.Copy(io.Discard, r) // lets a worker end that has more output
			return
		}
	}
}

// Send sends requests in one write, so that the worker can get them in one read.
func (c *Client) Send(requests ...*workerproto.WorkRequest) error {
	data, err := Encode(requests...)
	if err != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	_, err = c.in.Write(data)
	return err
}

// Encode returns requests in the framing of the protocol.
func Encode(requests ...*workerproto.WorkRequest) ([]byte, error) {
	var data bytes.Buffer
	for _, r := range requests {
		if _, err := protodelim.MarshalTo(&data, r); err != nil {
			return nil, err
		}
	}
	return data.Bytes(), nil
}

// Cancellation returns the message that cancels the request of that id.
func Cancellation(id int32) *workerproto.WorkRequest {
	return &workerproto.WorkRequest{RequestId: id, Cancel: true}
}

// Receive waits for a response and returns it; every response is returned
// once. At the end of the worker's output the error is io.EOF.
func (c *Client) Receive(ctx context.Context) (*workerproto.WorkResponse, error) {
	return c.receive(ctx, func(*workerproto.WorkResponse) bool { return true })
}

// Wait is Receive for the first response with an id.
func (c *Client) Wait(ctx context.Context, id int32) (*workerproto.WorkResponse, error) {
	return c.receive(ctx, func(r *workerproto.WorkResponse) bool { return r.GetRequestId() == id })
}

// Do sends a request and waits for the response with its id.
func (c *Client) Do(ctx context.Context, request *workerproto.WorkRequest) (*workerproto.WorkResponse, error) {
	if err := c.Send(request); err != nil {
		return nil, err
	}
	return c.Wait(ctx, request.GetRequestId())
}

func (c *Client) receive(ctx context.Context, wanted func(*workerproto.WorkResponse) bool) (*workerproto.WorkResponse, error) {
	for {
		c.mu.Lock()
		if i := slices.IndexFunc(c.responses, wanted); i >= 0 {
			r := c.responses[i]
			c.responses = slices.Delete(c.responses, i, i+1)
			c.mu.Unlock()
			return r, nil
		}
		arrived, err := c.arrived, c.readErr
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the worker's input, waits until the worker has ended, and returns
// its error: what worker.Serve returned, the exit status of a process, or that
// its output is not made of responses. Responses not yet received can still be.
func (c *Client) Close() error {
	closeErr := c.in.Close()
	<-c.ended
	if err := c.wait(); err != nil {
		return err
	}
	if !errors.Is(c.readErr, io.EOF) || errors.Is(c.readErr, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading work responses: %w", c.readErr)
	}
	return closeErr
}
