//go:build unix

package bundler

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe stands for devices such as /dev/null, which LLVM's tool replaces.
func TestArchiveIntoPipe(t *testing.T) {
	b := newBench(t)
	b.bundle("bc", "x", hip+"gfx906", "one")
	b.write("x.a", archive(t, "m.bc", b.read("x")))
	b.must(unbundleArgs("a", "x.a", hip+"gfx906")...)
	want := b.read("out0")
	pipe := filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		got, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(got)
	}()
	b.must("-unbundle", "-type=a", "-targets="+hip+"gfx906", "-input=x.a", "-output=pipe")
	if got := <-read; got != want {
		t.Errorf("the pipe got %d bytes, want %d", len(got), len(want))
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
}
