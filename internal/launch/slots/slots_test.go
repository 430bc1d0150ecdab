package slots

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestAcquire has two users of the same slots, as two processes have.
func TestAcquire(t *testing.T) {
	dir := t.TempDir()
	one, two := &Machine{Dir: dir, Jobs: 2, Memory: 100}, &Machine{Dir: dir, Jobs: 2, Memory: 100}
	acquire := func(m *Machine, memory int64) (func(), bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		release, err := m.Acquire(ctx, memory)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return release, err == nil
	}
	must := func(m *Machine, memory int64) func() {
		t.Helper()
		release, ok := acquire(m, memory)
		if !ok {
			t.Fatal("no slot")
		}
		return release
	}
	mustNot := func(m *Machine, memory int64) {
		t.Helper()
		if _, ok := acquire(m, memory); ok {
			t.Fatal("got a slot, want none")
		}
	}
	first := must(one, 10)
	second := must(two, 10)
	mustNot(one, 0)
	mustNot(two, 0)
	first()
	third := must(two, 0)
	third()
	mustNot(one, 91) // of memory
	fourth := must(one, 90)
	fourth()
	second()
	large := must(two, 1000) // alone
	mustNot(one, 1)
	large()
	must(one, 1)()
}

// TestKilled kills a process that holds a slot.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("SLOTS_DIR"); dir != "" {
		if _, err := (&Machine{Dir: dir, Jobs: 1}).Acquire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "held"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "SLOTS_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := os.Stat(filepath.Join(dir, "held")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	m := &Machine{Dir: dir, Jobs: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := m.Acquire(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a slot that is taken", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	release, err := m.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
