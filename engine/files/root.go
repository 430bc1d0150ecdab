// Package files opens the inputs and writes the outputs of a request. A [Root] resolves their names under one
// directory and opens inputs, which are mapped where that is faster. [Outputs] are a transaction: all files of
// a request appear under their names when they are complete, or none. A [NewTree] is a directory that does.
package files

import (
	"cmp"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Root resolves the paths of one request. Relative paths are relative to its
// directory; the name "-" is standard input or output. It records the files
// opened through it, so that no output can overwrite an input.
//
// Set the exported fields before the first Open. All methods may be called
// concurrently.
type Root struct {
	// Stdin is read to its end if an input is named "-". If nil, that name is an
	// error.
	Stdin io.Reader
	// MaxStream returns the limit of the bytes of standard input, or of a pipe or
	// device, that are read into memory; nil or 0 means 8 GiB. While reading, up to
	// twice as much memory is in use.
	MaxStream func() int64
	// Stdout receives, on commit, the content of outputs named "-". If nil, that
	// name is an error.
	Stdout io.Writer
	// Contents are inputs in memory by name, which hide files of these names.
	Contents map[string][]byte
	// Writers receive, on commit, the contents of outputs by name, instead of files.
	Writers map[string]io.Writer
	// RejectPointers makes opening a Git LFS pointer, which stands for a file that was not
	// downloaded, an error.
	RejectPointers bool
	// TempDir is the directory of temporary files for outputs in directories that
	// are not writable, and for streams; "" means /tmp.
	TempDir string

	dir      string
	declared map[string]bool // nil: every file may be read

	mu     sync.Mutex
	inputs map[fileID]string // opened so far, with the name under which each was opened
	mapped map[*Input]bool   // the mapped inputs that are open
	change error             // the first change of an input that is closed

	stdin     sync.Once
	stdinData []byte
	stdinErr  error
}

// NewRoot returns a Root for a directory: the sandbox directory of a worker
// request, or "" for the working directory of the process.
func NewRoot(dir string) *Root {
	return &Root{dir: dir, inputs: make(map[fileID]string), mapped: make(map[*Input]bool)}
}

// Declare restricts the Root to the inputs that a worker request lists: opening
// any other file is an error. Paths are those of the request, relative to the
// root; a listed directory covers everything in it. Standard input and
// /dev/null remain readable.
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

// Dir returns the directory that relative names are relative to; "" is the working directory
// of the process.
func (r *Root) Dir() string { return r.dir }

// Abs returns the absolute path on disk of a name in the request.
func (r *Root) Abs(name string) (string, error) { return filepath.Abs(r.path(name)) }

// Stat describes a file that a program of the request wrote, or one that the request may
// leave out. It does not check declared inputs.
func (r *Root) Stat(name string) (fs.FileInfo, error) { return os.Stat(r.path(name)) }

// Remove deletes a file that a program of the request wrote.
func (r *Root) Remove(name string) error { return os.Remove(r.path(name)) }

// path returns the path on disk of a name in the request.
func (r *Root) path(name string) string {
	if r.dir == "" || filepath.IsAbs(name) {
		return name
	}
	// filepath.Join would remove "a/..", which is wrong if a is a symlink.
	return r.dir + string(filepath.Separator) + name
}

// relative returns name as a clean path below the root, or false if it is
// outside the root.
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

// strippedOutputs begins the paths of outputs with Bazel's --experimental_output_paths=strip.
const strippedOutputs = "bazel-out/cfg/"

// input returns the path of an input on disk, or an error if the request may
// not read it.
func (r *Root) input(name string) (string, error) {
	if r.declared == nil || name == os.DevNull {
		return r.path(name), nil
	}
	rel, ok := r.relative(name)
	if !ok {
		return "", reject(name, "is outside of the directory of the action, so it cannot be one of its declared inputs")
	}
	for p := rel; ; {
		if r.declared[p] {
			// Return the cleaned path, so that the opened path is the checked one.
			return r.path(filepath.FromSlash(rel)), nil
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			if strings.HasPrefix(rel, strippedOutputs) {
				return "", reject(name, "not a declared input of the action: Bazel does not strip the paths that it sends to local workers: set --spawn_strategy=linux-sandbox, or leave out --experimental_output_paths=strip")
			}
			return "", reject(name, "not a declared input of the action: declare it as an input")
		}
		p = p[:i]
	}
}

// opened records an input for the check in claim.
func (r *Root) opened(id fileID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs[id] = name
}

// inputNamed returns the name under which the file was opened as an input.
func (r *Root) inputNamed(id fileID) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.inputs[id]
	return name, ok
}

// reading records a mapped input, until doneReading.
func (r *Root) reading(in *Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// unchanged returns an error if an input was modified after it was opened
// through the Root, because the bytes read can then be a mixture of old and new
// ones. It compares size and modification time. Outputs.Commit calls it.
func (r *Root) unchanged() error {
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

// standardInput returns all bytes of Stdin. It reads Stdin once, so that a
// second "-" has the same bytes.
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

// MissingDirectory returns the directory in the name of a file if that directory does not exist,
// otherwise "".
func (r *Root) MissingDirectory(name string) string {
	dir := filepath.Dir(name)
	if dir == "." {
		return ""
	}
	if _, err := os.Stat(r.path(dir)); !os.IsNotExist(err) {
		return ""
	}
	return dir
}
