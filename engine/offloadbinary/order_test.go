package offloadbinary

import "testing"

// Buckets of a table of 64 that were read out of llvm-offload-binary 22.
func TestHash22(t *testing.T) {
	for key, want := range map[string]uint32{
		"arch": 9, "file": 19, "triple": 24, "kind": 37, "symbols": 37, "version": 5, "feature": 2, "": 2,
	} {
		if got := hash22(key) & 63; got != want {
			t.Errorf("hash22(%q) mod 64 = %d, want %d", key, got, want)
		}
	}
}
