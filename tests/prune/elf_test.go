package prune

import (
	"bytes"
	"debug/elf"
	"testing"
)

// sectionSize returns the size of the device code in a file.
func sectionSize(t *testing.T, data []byte) int {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".hip_fatbin")
	if s == nil {
		t.Fatal("no section .hip_fatbin")
	}
	return int(s.Size)
}
