package target

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden returns the lines of a file in testdata, split at tabs. The files contain results of LLVM
// 22.1.8; the first line names its function.
func golden(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[1:] {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return rows
}

func TestNormalizeLikeLLVM(t *testing.T) {
	for _, row := range golden(t, "triples.txt") {
		if got := Normalize(row[0], 0); got != row[1] {
			t.Errorf("Normalize(%q, 0) = %q, want %q", row[0], got, row[1])
		}
		if got := ParseTriple(row[0]).Normalize(); got != row[2] {
			t.Errorf("Normalize(%q, 4) = %q, want %q", row[0], got, row[2])
		}
	}
}

func TestIDLikeLLVM(t *testing.T) {
	for _, row := range golden(t, "ids.txt") {
		id, err := ParseLLVM(row[0])
		if err != nil {
			t.Errorf("ParseLLVM(%q): %v", row[0], err)
			continue
		}
		if got := strconv.Itoa(btoi(id.Kind.Valid())); got != row[1] {
			t.Errorf("%q: kind valid %s, want %s", row[0], got, row[1])
		}
		if got := strconv.Itoa(btoi(id.Triple.Arch != ArchUnknown)); got != row[2] {
			t.Errorf("%q: triple valid %s, want %s", row[0], got, row[2])
		}
		if got := id.llvm().String(); got != row[3] {
			t.Errorf("%q: standard form %q, want %q", row[0], got, row[3])
		}
	}
}

func TestMatchLikeLLVM(t *testing.T) {
	for _, row := range golden(t, "matches.txt") {
		entry, err1 := ParseLLVM(row[1])
		request, err2 := ParseLLVM(row[2])
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		m := Rules{HIPOpenMP: row[0] == "1"}.Match(entry, request)
		if got := strconv.Itoa(btoi(m.Compatible())); got != row[3] {
			t.Errorf("%s: compatible %s, want %s", m, got, row[3])
		}
	}
}

func TestOrderLikeLLVM(t *testing.T) {
	var keys []string
	var want, got []int
	check := func() {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of the first %d keys (-want +got):\n%s", len(want), diff)
		}
	}
	for _, row := range golden(t, "order.txt") {
		if n, ok := strings.CutPrefix(row[0], "# the first "); ok {
			check()
			count, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			want, got = []int{}, LLVM22.Order(keys[:count])
		} else if got == nil {
			keys = append(keys, row[0])
		} else if i, err := strconv.Atoi(row[0]); err == nil {
			want = append(want, i)
		} else {
			t.Fatal(err)
		}
	}
	check()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
