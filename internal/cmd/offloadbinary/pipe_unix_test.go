//go:build unix

package offloadbinary

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe stands for devices such as /dev/null, which LLVM's tool replaces.
func TestArchiveIntoPipe(t *testing.T) {
	tool := newTool(t, map[string]string{"in": "content"})
	tool.must("-o", "in.bin", "--image=file=in,triple=t,arch=a,kind=hip")
	tool.must("in.bin", "--archive", "--image=file=lib.a")
	want, err := os.ReadFile(filepath.Join(tool.dir, "lib.a"))
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(tool.dir, "pipe")
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
	tool.must("in.bin", "--archive", "--image=file=pipe")
	if got := <-read; got != string(want) {
		t.Errorf("the pipe got %d bytes, want %d", len(got), len(want))
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
}
