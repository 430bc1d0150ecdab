package offloadbinary

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

// The order of keys of every length class, with enough keys that the table grows twice.
// testdata/order.txt has the keys, one in each line, in the order of the arguments after file and
// kind, and then the orders in which LLVM 22.1.8 and 23.1.4 wrote them.
func TestOrder(t *testing.T) {
	text, err := os.ReadFile("testdata/order.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	keys := append([]string{"file", "kind"}, lines[:len(lines)-2]...)
	for version, line := range map[int]string{1: lines[len(lines)-2], 2: lines[len(lines)-1]} {
		var want []int
		for _, field := range strings.Fields(line) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		var got []int
		for _, i := range Order(version, keys) {
			if i >= 2 {
				got = append(got, i-2)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %d (-LLVM +ours):\n%s", version, diff)
		}
	}
}
