package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	run := func(ctx context.Context, responses string, args ...string) (string, error) {
		var out bytes.Buffer
		p := Command{Args: args, Env: []string{"A=b"}, Stdout: &out, Stderr: &out, Responses: responses}
		err := p.Run(ctx)
		return out.String(), err
	}
	if out, err := run(t.Context(), "", "/bin/sh", "-c", "echo $A; echo c >&2"); out != "b\nc\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	for _, program := range []string{"/bin/false", "/no/such/false"} {
		if _, err := run(t.Context(), "", program); err == nil || err.Error() != "'false' failed" {
			t.Errorf("%s: %v", program, err)
		}
	}
	long := strings.Repeat("x", maxCommandLine)
	out, err := run(t.Context(), dir, "/bin/sh", "-c", "echo", long)
	// The shell interprets the response file as a missing script.
	if err == nil || !strings.Contains(out, "@"+dir) {
		t.Errorf("%q, %v", out, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	// Cancellation also kills processes that the program started: the pipe is closed once no
	// process has it open.
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		r, err := os.Open(pipe)
		if err == nil {
			defer r.Close()
			var started [1]byte
			if _, err = r.Read(started[:]); err == nil {
				cancel(cause)
				_, err = io.Copy(io.Discard, r)
			}
		}
		ended <- err
	}()
	if _, err := run(ctx, "", "/bin/sh", "-c", "exec 3>"+pipe+"; sleep 600 & echo >&3; wait"); err != cause {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestResponse(t *testing.T) {
	args := []string{`a b`, `c"d\`, ``, `\\x`}
	if got, want := string(response(args, false)), "\"a b\"\n\"c\\\"d\\\\\"\n\"\"\n\"\\\\\\\\x\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := string(response(args, true)), "\"a b\"\n\"c\\\"d\\\\\"\n\"\"\n\"\\\\x\"\n"; got != want {
		t.Errorf("Windows: %q, want %q", got, want)
	}
}

// raise makes v at least n.
func raise(v *atomic.Int32, n int32) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

func TestJobs(t *testing.T) {
	var running, most, done atomic.Int32
	err := Jobs(t.Context(), Limit(3), 20, nil, func(context.Context, int) error {
		raise(&most, running.Add(1))
		defer running.Add(-1)
		done.Add(1)
		return nil
	})
	if err != nil || done.Load() != 20 || most.Load() > 3 {
		t.Errorf("%v, %d done, %d at once", err, done.Load(), most.Load())
	}
	failure := errors.New("failed")
	var announced []int
	started := 0
	err = Jobs(t.Context(), Limit(1), 20, func(i int) { announced = append(announced, i) }, func(_ context.Context, i int) error {
		started++
		if i == 2 {
			return failure
		}
		return nil
	})
	if err != failure || started != 3 || !slices.Equal(announced, []int{0, 1, 2}) {
		t.Errorf("%v after %d, announced %d", err, started, announced)
	}
	// The others are stopped.
	err = Jobs(t.Context(), Limit(2), 2, nil, func(ctx context.Context, i int) error {
		if i == 1 {
			return failure
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != failure {
		t.Error(err)
	}
}

// TestJobserver uses both forms of the job server: file descriptors and a pipe
// with a name.
func TestJobserver(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	named, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for flags, tokens := range map[string]*os.File{
		"-j --jobserver-auth=fifo:" + fifo:                               named,
		" -j3 --jobserver-fds=9,9 --jobserver-auth=" + descriptors(r, w): w,
	} {
		if _, err := tokens.WriteString("ab"); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJobserver(flags)
		if err != nil || j == nil {
			t.Fatalf("%s: %v, %v", flags, j, err)
		}
		var running, most, done atomic.Int32
		var three sync.WaitGroup
		three.Add(3)
		err = Jobs(t.Context(), j, 12, nil, func(_ context.Context, i int) error {
			raise(&most, running.Add(1))
			// The own slot and two tokens: the first commands run in parallel.
			if i < 3 {
				three.Done()
				three.Wait()
			}
			running.Add(-1)
			done.Add(1)
			return nil
		})
		if err != nil || done.Load() != 12 || most.Load() != 3 {
			t.Errorf("%s: %v, %d done, %d at once", flags, err, done.Load(), most.Load())
		}
		// All tokens are returned unchanged.
		from := named
		if tokens == w {
			from = r
		}
		back := make([]byte, 2)
		if _, err := from.Read(back); err != nil || string(back) != "ab" && string(back) != "ba" {
			t.Errorf("%s: tokens %q, %v", flags, back, err)
		}
		// Without tokens, waiting ends with the context.
		release, err := j.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := j.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", flags, err)
		}
		cancel()
		release()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	for flags, fails := range map[string]bool{
		"": false, "-j": false, "k -- A=--jobserver-auth": false,
		"--jobserver-auth=x": true, "--jobserver-auth=1": true, "--jobserver-auth=-1,-2": true, "--jobserver-auth=fifo:/no/such": true, "--jobserver-auth=fifo:/dev/null": true,
	} {
		if j, err := OpenJobserver(flags); j != nil || (err != nil) != fails {
			t.Errorf("%q: %v, %v", flags, j, err)
		}
	}
}

// TestJobserverConcurrent acquires slots in several goroutines without a token, and cancels one
// after another: the others wait until they get a slot.
func TestJobserverConcurrent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	j, err := OpenJobserver("--jobserver-auth=" + descriptors(r, w))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	own, err := j.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled, waiting sync.WaitGroup
		for range 3 {
			cancelled.Go(func() {
				if release, err := j.Acquire(ctx); err == nil {
					release() // the token that is for the other goroutine
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
				}
			})
		}
		waiting.Go(func() {
			release, err := j.Acquire(t.Context())
			if err != nil {
				t.Errorf("waiting: %v", err)
				return
			}
			release()
		})
		cancel()
		cancelled.Wait()
		if _, err := w.Write([]byte{'t'}); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		var token [1]byte
		if _, err := r.Read(token[:]); err != nil || token[0] != 't' {
			t.Fatalf("token %q, %v", token, err)
		}
		if t.Failed() {
			break
		}
	}
	own()
}

func descriptors(r, w *os.File) string {
	return itoa(int(r.Fd())) + "," + itoa(int(w.Fd()))
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}
