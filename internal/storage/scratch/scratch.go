// Package scratch creates directories for temporary files in TMPDIR, which are removed even if the process
// ends early, except by SIGKILL, and even if programs that the process killed were still writing to them.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Dir is a directory for temporary files.
type Dir struct {
	// Path is the absolute path of the directory.
	Path string
}

var (
	mu    sync.Mutex
	live  map[*Dir]bool
	ended bool // whether RemoveAll was called

	endOfPipe func() // ends what onEndOfPipe began
)

// New creates a directory in TMPDIR, or else /tmp. Its name is the pattern of [os.MkdirTemp]. Call Remove
// when it is no longer used.
func New(pattern string) (*Dir, error) {
	mu.Lock()
	defer mu.Unlock()
	if ended {
		return nil, errors.New("no directory for temporary files: the process is ending")
	}
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return nil, err
	}
	d := &Dir{path}
	if live == nil {
		live = map[*Dir]bool{}
	}
	live[d] = true
	if len(live) == 1 {
		endOfPipe = onEndOfPipe(RemoveAll)
	}
	return d, nil
}

// Environment returns env with the directory as TMPDIR, for programs that may be killed: they would leave
// their temporary files in the user's directory.
func (d *Dir) Environment(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool { return strings.HasPrefix(variable, "TMPDIR=") })
	return append(env, "TMPDIR="+d.Path)
}

// Remove removes the directory and its content.
func (d *Dir) Remove() {
	d.remove()
	mu.Lock()
	defer mu.Unlock()
	if delete(live, d); len(live) == 0 && endOfPipe != nil {
		endOfPipe()
		endOfPipe = nil
	}
}

// removeFor is how long remove waits for processes that were killed and still write.
const removeFor = time.Second

func (d *Dir) remove() {
	for deadline := time.Now().Add(removeFor); ; time.Sleep(5 * time.Millisecond) {
		if err := os.RemoveAll(d.Path); err == nil || time.Now().After(deadline) {
			return
		}
	}
}

// RemoveAll removes all directories that are in use, before the process ends without waiting for their users.
// New fails from then on.
func RemoveAll() {
	mu.Lock()
	defer mu.Unlock()
	ended = true
	for d := range live {
		d.remove()
	}
}
