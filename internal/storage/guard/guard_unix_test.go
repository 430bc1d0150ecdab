//go:build unix

package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faultAt is a panic of the runtime for a fault.
type faultAt uintptr

func (f faultAt) Addr() uintptr { return uintptr(f) }

const size = 64 << 10

// mapped creates and maps a file.
func mapped(t *testing.T, path string) *Mapping {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(data) })
	return Map(data, &File{File: f, Label: filepath.Base(path), Size: size}, 0)
}

// TestFaultOfClosed has a fault on a file that was closed, in whose place another is
// mapped by now: the message names the one that was cut.
func TestFaultOfClosed(t *testing.T) {
	dir := t.TempDir()
	whole := mapped(t, filepath.Join(dir, "whole"))
	defer whole.Forget()
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(whole.Bytes())))
	cut := mapped(t, filepath.Join(dir, "cut"))
	cut.Forget()
	if err := os.Truncate(filepath.Join(dir, "cut"), 0); err != nil {
		t.Fatal(err)
	}
	// The kernel chooses the addresses, so pretend that the closed mapping had the address of the
	// other.
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
