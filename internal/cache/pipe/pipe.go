// Package pipe is a store in another process, which it serves on its standard input and output. It is
// the program offload-remote, whose libraries for servers would make each start of offload slow.
package pipe

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
)

// Kinds of requests and replies.
const (
	options = 'o'
	result  = 'r'
	blob    = 'b'
	put     = 'p' // has no reply

	found   = 'f'
	missing = 'm'
	failed  = 'e'
)

// maxFrame is the largest frame, in bytes.
const maxFrame = 9 << 30

// writeFrame writes a frame: a byte, and parts with their lengths.
func writeFrame(w io.Writer, kind byte, parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += 8 + len(part)
	}
	head := binary.LittleEndian.AppendUint64([]byte{kind}, uint64(size))
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part)))); err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

var errFrame = errors.New("the remote cache program sent an invalid frame")

// readFrame reads a frame.
func readFrame(r io.Reader) (kind byte, parts [][]byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint64(head[1:])
	if size > maxFrame {
		return 0, nil, errFrame
	}
	// The size grows with what is read, so that a wrong one allocates nothing.
	data, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return 0, nil, err
	}
	if uint64(len(data)) != size {
		return 0, nil, io.ErrUnexpectedEOF
	}
	for len(data) > 0 {
		if len(data) < 8 {
			return 0, nil, errFrame
		}
		n := binary.LittleEndian.Uint64(data)
		if data = data[8:]; n > uint64(len(data)) {
			return 0, nil, errFrame
		}
		parts = append(parts, data[:n:n])
		data = data[n:]
	}
	return head[0], parts, nil
}

// Client is a store that a program serves. The program starts with the first call.
type Client struct {
	// Program is the path of the program, and Options what it gets first, as JSON.
	Program string
	Options any
	// Timeout limits each call.
	Timeout time.Duration

	mu   sync.Mutex
	in   io.WriteCloser
	w    *bufio.Writer
	r    *bufio.Reader
	cmd  *exec.Cmd
	dead error
}

// start starts the program.
func (c *Client) start() error {
	if c.dead != nil || c.cmd != nil {
		return c.dead
	}
	cmd := exec.Command(c.Program)
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		c.dead = err
		return err
	}
	c.cmd, c.in, c.w, c.r = cmd, in, bufio.NewWriterSize(in, 64<<10), bufio.NewReaderSize(out, 64<<10)
	text, err := json.Marshal(c.Options)
	if err != nil {
		return err
	}
	return writeFrame(c.w, options, text)
}

// call sends a frame and returns the reply. A program that does not answer in time is ended, and not asked
// again.
func (c *Client) call(ctx context.Context, kind byte, parts ...[]byte) (reply byte, data [][]byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return 0, nil, err
	}
	done := make(chan struct{})
	// unguarded: it reads a pipe
	go func() {
		defer close(done)
		if err = errors.Join(writeFrame(c.w, kind, parts...), c.w.Flush()); err == nil && kind != put {
			reply, data, err = readFrame(c.r)
		}
	}()
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.dead = fmt.Errorf("the remote cache did not answer in %v", c.Timeout)
	case <-ctx.Done():
		c.dead = context.Cause(ctx)
	}
	if c.dead != nil {
		_ = c.cmd.Process.Kill()
		<-done
		return 0, nil, c.dead
	}
	if err != nil {
		c.dead = fmt.Errorf("the remote cache program ended: %w", err)
		return 0, nil, c.dead
	}
	if reply == failed && len(data) == 1 {
		// A server that fails once is not asked again by this process.
		c.dead = errors.New(string(data[0]))
		return 0, nil, c.dead
	}
	return reply, data, nil
}

// Close lets the program complete what it stores. It does not wait for it.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		c.in.Close()
	}
}

// Result implements cache.Store.
func (c *Client) Result(ctx context.Context, action cache.Digest) (*cache.Result, error) {
	kind, data, err := c.call(ctx, result, []byte(action.String()))
	if err != nil || kind == missing {
		return nil, err
	}
	if kind != found || len(data) != 1 {
		return nil, errFrame
	}
	return cache.ParseResult(data[0])
}

// Blob implements cache.Store.
func (c *Client) Blob(ctx context.Context, digest cache.Digest) ([]byte, error) {
	kind, data, err := c.call(ctx, blob, []byte(digest.String()))
	if err != nil {
		return nil, err
	}
	if kind == missing {
		return nil, cache.ErrMissing
	}
	if kind != found || len(data) != 1 {
		return nil, errFrame
	}
	return data[0], nil
}

// Put implements cache.Store. It does not wait for the server.
func (c *Client) Put(ctx context.Context, action cache.Digest, r *cache.Result, blobs ...[]byte) error {
	_, _, err := c.call(ctx, put, append([][]byte{[]byte(action.String()), r.Marshal()}, blobs...)...)
	return err
}

// Serve answers requests until r ends. open opens the store with the options that the client sends as JSON.
func Serve(ctx context.Context, r io.Reader, w io.Writer, open func(options []byte) (cache.Store, error)) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	var store cache.Store
	var broken error
	for {
		kind, parts, err := readFrame(in)
		if errors.Is(err, io.EOF) {
			return broken
		}
		if err != nil {
			return err
		}
		if kind == options && len(parts) == 1 {
			store, broken = open(parts[0])
			continue
		}
		if store == nil && broken == nil || len(parts) == 0 {
			return errFrame
		}
		digest, err := cache.ParseDigest(string(parts[0]))
		if err != nil {
			return err
		}
		if kind == put {
			if broken == nil && len(parts) >= 2 {
				broken = serveResult(ctx, store, digest, parts)
			}
			continue
		}
		reply, data := byte(failed), []byte(nil)
		if err = broken; err == nil {
			reply, data, err = serve(ctx, store, kind, digest)
		}
		if err != nil {
			data = []byte(err.Error())
		}
		if err := errors.Join(writeFrame(out, reply, data), out.Flush()); err != nil {
			return err
		}
	}
}

// serveResult stores a result.
func serveResult(ctx context.Context, store cache.Store, action cache.Digest, parts [][]byte) error {
	r, err := cache.ParseResult(parts[1])
	if err != nil {
		return err
	}
	return store.Put(ctx, action, r, parts[2:]...)
}

// serve answers a request for a result or blob.
func serve(ctx context.Context, store cache.Store, kind byte, digest cache.Digest) (reply byte, data []byte, err error) {
	switch kind {
	case result:
		r, err := store.Result(ctx, digest)
		switch {
		case err != nil:
			return failed, nil, err
		case r == nil:
			return missing, nil, nil
		}
		return found, r.Marshal(), nil
	case blob:
		data, err := store.Blob(ctx, digest)
		switch {
		case errors.Is(err, cache.ErrMissing):
			return missing, nil, nil
		case err != nil:
			return failed, nil, err
		}
		return found, data, nil
	}
	return failed, nil, errFrame
}
