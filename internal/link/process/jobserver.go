package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Jobserver is a client of the job server of GNU make. The client has one slot of its own.
// The other slots are bytes in a pipe: acquiring one reads a byte, releasing it writes the
// byte back. Several goroutines may acquire slots at the same time.
type Jobserver struct {
	read, write *os.File

	own     chan struct{} // has the slot that needs no token
	reading chan struct{} // full while a goroutine reads the pipe, whose deadline it may set
}

// OpenJobserver connects to the job server that the variable MAKEFLAGS names, by
// file descriptors (R,W) or as a named pipe (fifo:PATH). It returns nil without
// an error if MAKEFLAGS names none.
func OpenJobserver(makeflags string) (*Jobserver, error) {
	auth := jobserverAuth(makeflags)
	if auth == "" {
		return nil, nil
	}
	readName, writeName, err := jobserverFiles(auth)
	if err != nil {
		return nil, err
	}
	j := &Jobserver{own: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
	j.own <- struct{}{}
	// Open the pipe again, because other processes share the descriptors of make and their
	// flag for non-blocking reads.
	if j.read, err = openPipe(readName, os.O_RDWR); err != nil {
		if j.read, err = openPipe(readName, os.O_RDONLY); err != nil {
			return nil, fmt.Errorf("job server %s: %w", auth, err)
		}
	}
	if j.write, err = openPipe(writeName, os.O_WRONLY); err != nil {
		j.read.Close()
		return nil, fmt.Errorf("job server %s: %w", auth, err)
	}
	return j, nil
}

// jobserverAuth returns the name of the job server in MAKEFLAGS. If it has several, the last
// one applies.
func jobserverAuth(makeflags string) (auth string) {
	for _, word := range strings.Fields(makeflags) {
		for _, option := range []string{"--jobserver-auth=", "--jobserver-fds="} {
			if value, ok := strings.CutPrefix(word, option); ok {
				auth = value
			}
		}
		if word == "--" {
			break // variables follow
		}
	}
	return auth
}

// jobserverFiles returns the files to read tokens from and to write them to.
func jobserverFiles(auth string) (read, write string, err error) {
	if name, ok := strings.CutPrefix(auth, "fifo:"); ok {
		return name, name, nil
	}
	r, w, ok := strings.Cut(auth, ",")
	rfd, rerr := strconv.Atoi(r)
	wfd, werr := strconv.Atoi(w)
	if !ok || rerr != nil || werr != nil || rfd < 0 || wfd < 0 {
		return "", "", fmt.Errorf("job server %q in MAKEFLAGS: expected two file descriptors, or fifo: and a path", auth)
	}
	return fmt.Sprintf("/proc/self/fd/%d", rfd), fmt.Sprintf("/proc/self/fd/%d", wfd), nil
}

// openPipe opens a pipe so that reads can be interrupted.
func openPipe(name string, flag int) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeNamedPipe == 0 {
		return nil, fmt.Errorf("%s is not a pipe", name)
	}
	return os.OpenFile(name, flag|nonblock, 0)
}

// Acquire implements Slots.
func (j *Jobserver) Acquire(ctx context.Context) (func(), error) {
	select {
	case <-j.own:
		return j.releaseOwn, nil
	default:
	}
	select {
	case <-j.own:
		return j.releaseOwn, nil
	case j.reading <- struct{}{}:
		defer func() { <-j.reading }()
		return j.acquireToken(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// acquireToken waits until the own slot is free or the pipe has a token. It requires reading.
func (j *Jobserver) acquireToken(ctx context.Context) (func(), error) {
	type result struct {
		token byte
		err   error
	}
	got := make(chan result, 1)
	// unguarded: it reads a pipe
	go func() {
		var token [1]byte
		_, err := j.read.Read(token[:])
		got <- result{token[0], err}
	}()
	// stop ends the read. A token that it got meanwhile goes back.
	stop := func() {
		j.read.SetReadDeadline(time.Unix(1, 0))
		if r := <-got; r.err == nil {
			j.put(r.token)
		}
		j.read.SetReadDeadline(time.Time{})
	}
	select {
	case r := <-got:
		if r.err != nil {
			return nil, fmt.Errorf("job server: %w", r.err)
		}
		return j.releaseToken(r.token), nil
	case <-j.own:
		stop()
		return j.releaseOwn, nil
	case <-ctx.Done():
		stop()
		return nil, context.Cause(ctx)
	}
}

func (j *Jobserver) releaseOwn() { j.own <- struct{}{} }

func (j *Jobserver) releaseToken(token byte) func() {
	return sync.OnceFunc(func() { j.put(token) })
}

func (j *Jobserver) put(token byte) { j.write.Write([]byte{token}) }

// Close closes the pipe. All slots must have been released.
func (j *Jobserver) Close() error { return errors.Join(j.read.Close(), j.write.Close()) }
