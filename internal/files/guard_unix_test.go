//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// faultAt is a panic of the runtime for a fault.
type faultAt uintptr

func (f faultAt) Addr() uintptr { return uintptr(f) }

// TestFaultOfClosed has a fault on an input that was closed, in whose place another is
// mapped by now: the message names the one that was cut.
func TestFaultOfClosed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cut", "whole"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 2*mapFrom), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	root := NewRoot(dir)
	in, err := root.Open("whole")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(in.Bytes())))
	closed, err := root.Open("cut")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if err := os.Truncate(filepath.Join(dir, "cut"), 0); err != nil {
		t.Fatal(err)
	}
	// The kernel chooses the addresses: say that the closed one had that of the other.
	unmapped.mu.Lock()
	unmapped.list[(unmapped.next+len(unmapped.list)-1)%len(unmapped.list)].start = addr
	unmapped.mu.Unlock()
	if err := faultError(faultAt(addr + 100)); err == nil || !strings.Contains(err.Error(), "'cut': the file shrank from 65536 to 0 bytes") {
		t.Errorf("got %v, want an error that names the file that was cut", err)
	}
	if err := os.Truncate(filepath.Join(dir, "whole"), 50); err != nil {
		t.Fatal(err)
	}
	if err := faultError(faultAt(addr + 100)); err == nil || !strings.Contains(err.Error(), "'whole': the file shrank") {
		t.Errorf("got %v, want an error that names the file that is mapped", err)
	}
}
