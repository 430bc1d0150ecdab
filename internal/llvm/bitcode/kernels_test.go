package bitcode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The file is testdata/kernels.ll, assembled by llvm-as 22.
func TestKernels(t *testing.T) {
	got, err := Kernels(testdata(t, "kernels.bc"))
	if diff := cmp.Diff([]string{"_Z4gemmPf", "ptx", "local"}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if got, err := Kernels(testdata(t, "alias-elf.bc")); err != nil || len(got) != 0 {
		t.Errorf("a file without kernels: %q, %v", got, err)
	}
	if _, err := Kernels([]byte("BC\xc0\xde\x01")); err == nil {
		t.Error("a damaged file: no error")
	}
}
