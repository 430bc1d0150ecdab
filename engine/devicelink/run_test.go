package devicelink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	run := func(ctx context.Context, responses string, args ...string) (string, error) {
		var out bytes.Buffer
		p := Process{Args: args, Env: []string{"A=b"}, Stdout: &out, Stderr: &out, Responses: responses}
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
	// The shell takes the response file for a script that is not there.
	if err == nil || !strings.Contains(out, "@"+dir) {
		t.Errorf("%q, %v", out, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	// Cancellation kills what the program started, too.
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	pid := filepath.Join(dir, "pid")
	go func() {
		for ctx.Err() == nil {
			if data, _ := os.ReadFile(pid); bytes.HasSuffix(data, []byte("\n")) {
				cancel(cause)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := run(ctx, "", "/bin/sh", "-c", "sleep 60 & echo $! > "+pid+"; wait"); err != cause {
		t.Error(err)
	}
	data, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	// Killed processes take a moment to end.
	for deadline := time.Now().Add(20 * time.Second); ; {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(data)) + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child runs on: %s", status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestResponse(t *testing.T) {
	args := []string{`a b`, `c"d\`, ``, `\\x`}
	if got, want := string(Response(args, false)), "\"a b\"\n\"c\\\"d\\\\\"\n\"\"\n\"\\\\\\\\x\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := string(Response(args, true)), "\"a b\"\n\"c\\\"d\\\\\"\n\"\"\n\"\\\\x\"\n"; got != want {
		t.Errorf("Windows: %q, want %q", got, want)
	}
}

func TestJobs(t *testing.T) {
	var running, most, done atomic.Int32
	err := Jobs(t.Context(), Limit(3), 20, func(context.Context, int) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		done.Add(1)
		return nil
	})
	if err != nil || done.Load() != 20 || most.Load() > 3 {
		t.Errorf("%v, %d done, %d at once", err, done.Load(), most.Load())
	}
	failure := errors.New("failed")
	started := 0
	err = Jobs(t.Context(), Limit(1), 20, func(_ context.Context, i int) error {
		started++
		if i == 2 {
			return failure
		}
		return nil
	})
	if err != failure || started != 3 {
		t.Errorf("%v after %d", err, started)
	}
	// The others are stopped.
	err = Jobs(t.Context(), Limit(2), 2, func(ctx context.Context, i int) error {
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
		err = Jobs(t.Context(), j, 12, func(context.Context, int) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
			done.Add(1)
			return nil
		})
		if err != nil || done.Load() != 12 || most.Load() > 3 || most.Load() < 2 {
			t.Errorf("%s: %v, %d done, %d at once", flags, err, done.Load(), most.Load())
		}
		// All tokens are back, the same ones.
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

func descriptors(r, w *os.File) string {
	return itoa(int(r.Fd())) + "," + itoa(int(w.Fd()))
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}
