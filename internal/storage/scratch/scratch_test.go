package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestRemove removes a directory while a process writes to it.
func TestRemove(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	for range 20 {
		d, err := New("x-")
		if err != nil {
			t.Fatal(err)
		}
		writer := exec.Command("/bin/sh", "-c", "i=0; while mkdir -p a/$i && : >a/$i/f && : >b$i; do i=$((i+1)); done")
		writer.Dir = d.Path
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(d.Path, "b3")); err == nil {
				break
			}
		}
		writer.Process.Kill() // Remove does not wait for its end
		d.Remove()
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Fatalf("got %v and error %v, want an empty directory", left, err)
		}
		writer.Wait()
	}
}

// TestRemoveAll removes the directories of other users, and no more can be created.
func TestRemoveAll(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	defer func() { ended = false }()
	for range 3 {
		d, err := New("x-")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.Path, "f"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		defer d.Remove()
	}
	RemoveAll()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("got %v and error %v, want an empty directory", left, err)
	}
	if _, err := New("x-"); err == nil {
		t.Error("got a new directory, want an error")
	}
}

func TestEnvironment(t *testing.T) {
	d := &Dir{"/scratch"}
	got := d.Environment([]string{"A=1", "TMPDIR=/tmp", "B=TMPDIR=2"})
	if want := []string{"A=1", "B=TMPDIR=2", "TMPDIR=/scratch"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
