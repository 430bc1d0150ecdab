// Package releases gets tests the tools of other releases of LLVM than 22, from Debian.
package releases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

// All are the releases that can be had.
var All = []int{21, 22, 23, 24}

// Followed are the releases that the drop-ins follow.
var Followed = All[1:]

// Release is a release of LLVM.
type Release struct {
	Number int
	dir    string // in which /usr is as in Debian; empty for the root's own
}

var unpacked struct {
	sync.Mutex
	dirs map[int]string
}

// Get returns a release; it is fetched the first time, for all tests. Where it cannot be had, the test fails: a
// comparison that did not take place must not look like one that passed.
func Get(t testing.TB, number int) Release {
	t.Helper()
	if number == 22 {
		return Release{Number: 22}
	}
	unpacked.Lock()
	defer unpacked.Unlock()
	if dir, ok := unpacked.dirs[number]; ok {
		return Release{number, dir}
	}
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	fetch := exec.Command(filepath.Join(project, "tools", "offline", "llvm"), strconv.Itoa(number))
	fetch.Stderr = os.Stderr
	out, err := fetch.Output()
	if err != nil {
		t.Fatalf("LLVM %d is needed: %v", number, err)
	}
	if unpacked.dirs == nil {
		unpacked.dirs = map[int]string{}
	}
	unpacked.dirs[number] = strings.TrimSpace(string(out))
	return Release{number, unpacked.dirs[number]}
}

// Bin returns the directory of the tools of the release.
func (r Release) Bin() string {
	if r.dir == "" {
		return llvm.Dir
	}
	return filepath.Join(r.dir, "usr/lib/llvm-"+strconv.Itoa(r.Number), "bin")
}

// Command returns a command that runs a tool of the release.
func (r Release) Command(t testing.TB, tool string, args ...string) *exec.Cmd {
	t.Helper()
	if r.dir == "" {
		return exec.Command(llvm.Tool(t, tool), args...)
	}
	return exec.Command(filepath.Join(r.Bin(), tool), args...)
}
