package files

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Root resolves the paths of one request. Relative paths lie under its
// directory; the name "-" is standard input or output. It remembers the files
// opened through it, so that no output can overwrite an input.
//
// Set the exported fields before the first Open. All methods may be called by
// several goroutines at once.
type Root struct {
	// Stdin is read, whole, when an input is named "-". Nil refuses that name.
	Stdin io.Reader
	// MaxStream is how many bytes of standard input, or of a pipe or device, are read
	// into memory, where they are up to twice while they arrive; 0 means 8 GiB.
	MaxStream int64
	// Stdout receives, on commit, what was written to outputs named "-". Nil
	// refuses that name.
	Stdout io.Writer
	// TempDir holds what is to be written into a file whose own directory
	// cannot be written, and what a stream will get; "" means /tmp.
	TempDir string

	dir      string
	declared map[string]bool // nil: every file may be read

	mu     sync.Mutex
	inputs map[fileID]string // opened so far, with the name each was opened under
	mapped map[*Input]bool   // the mapped inputs that are open
	change error             // the first change of an input that is closed

	stdin     sync.Once
	stdinData []byte
	stdinErr  error
}

// NewRoot returns the Root for a directory: the sandbox directory of a worker
// request, or "" for the working directory of the process.
func NewRoot(dir string) *Root { return &Root{dir: dir} }

// Declare restricts the Root to the inputs a worker request lists: opening
// anything else is an error from then on. Paths are those of the request,
// relative to the root; a listed directory covers everything in it. Standard
// input and /dev/null stay readable.
func (r *Root) Declare(paths []string) {
	if r.declared == nil {
		r.declared = make(map[string]bool, len(paths))
	}
	for _, p := range paths {
		if p != "" {
			r.declared[filepath.ToSlash(filepath.Clean(p))] = true
		}
	}
}

func (r *Root) tempDir() string { return cmp.Or(r.TempDir, "/tmp") }

// path returns where a name of the request lies on disk.
func (r *Root) path(name string) string {
	if r.dir == "" || filepath.IsAbs(name) {
		return name
	}
	// Not filepath.Join: it would take "a/.." for nothing where a is a symlink.
	return r.dir + string(filepath.Separator) + name
}

// relative returns name as a clean path under the root, and false when it
// leads out of it.
func (r *Root) relative(name string) (string, bool) {
	if filepath.IsAbs(name) {
		dir, err := filepath.Abs(r.dir)
		if err != nil {
			return "", false
		}
		if name, err = filepath.Rel(dir, name); err != nil {
			return "", false
		}
	}
	return filepath.ToSlash(filepath.Clean(name)), filepath.IsLocal(name)
}

// input returns where an input lies on disk, or an error when the request may
// not read it.
func (r *Root) input(name string) (string, error) {
	if r.declared == nil || name == os.DevNull {
		return r.path(name), nil
	}
	rel, ok := r.relative(name)
	if !ok {
		return "", fmt.Errorf("'%s': lies outside of the directory of the action, so it cannot be one of its declared inputs", name)
	}
	for p := rel; ; {
		if r.declared[p] {
			// The cleaned path: what was checked is what is opened.
			return r.path(filepath.FromSlash(rel)), nil
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return "", fmt.Errorf("'%s': not among the inputs of the action: declare it as an input", name)
		}
		p = p[:i]
	}
}

// opened records an input for the check in claim.
func (r *Root) opened(id fileID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inputs == nil {
		r.inputs = make(map[fileID]string)
	}
	r.inputs[id] = name
}

// inputNamed returns under which name the file was opened as an input.
func (r *Root) inputNamed(id fileID) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.inputs[id]
	return name, ok
}

// reading records a mapped input until doneReading.
func (r *Root) reading(in *Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mapped == nil {
		r.mapped = make(map[*Input]bool)
	}
	r.mapped[in] = true
}

// doneReading checks a mapped input for the last time.
func (r *Root) doneReading(in *Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mapped, in)
	if err := in.check(); err != nil && r.change == nil {
		r.change = err
	}
}

// Unchanged returns an error if an input that was opened through the Root was
// written to after it was opened: what was read of it can be a mixture of old
// and new bytes. Size and modification time tell. Outputs.Commit calls it.
func (r *Root) Unchanged() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.change != nil {
		return r.change
	}
	open := slices.SortedFunc(maps.Keys(r.mapped), func(a, b *Input) int { return strings.Compare(a.name, b.name) })
	for _, in := range open {
		if err := in.check(); err != nil {
			return err
		}
	}
	return nil
}

// standardInput returns all of Stdin, read once: naming "-" twice gives the
// same bytes twice.
func (r *Root) standardInput() ([]byte, error) {
	r.stdin.Do(func() {
		if r.Stdin == nil {
			r.stdinErr = &Error{Name: "-", Err: syscall.EBADF}
			return
		}
		r.stdinData, r.stdinErr = r.readStream("-", r.Stdin)
	})
	return r.stdinData, r.stdinErr
}
