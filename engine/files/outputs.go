package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Outputs is a transaction of all files that a request writes. Commit writes
// either all of them or none.
//
// A file is written without a name, or under a temporary one, in the directory
// of its final name, and linked or renamed there. If the final name is a
// symbolic link, its target is replaced and the link is kept, as LLVM's tools
// do. Standard output, pipes and devices receive their bytes on Commit, before
// the first rename. Nothing is synced to the disk.
//
// A small file that already has the same bytes is not replaced. Only its time is
// updated, because creating a new file costs more than writing its bytes. Commit
// compares it again.
//
// If something else than a file, such as a directory, takes the name of an output before
// Commit, it stays, and Commit fails.
//
// A file that is replaced keeps its permission bits and its owner. If a rename
// would lose properties of the file, the finished bytes are copied to the old
// file after all renames. This applies to a file with several hard links, with
// an owner that the process cannot set, in a directory that is not writable or only
// permits new files, or that is a mount point. That copy is not atomic: if the process is killed
// during it, the file is incomplete, and it is not reverted if another output
// fails.
type Outputs struct {
	root *Root

	mu     sync.Mutex
	places map[place]string // the name under which each place was created
	dirs   []string         // created for outputs
	done   bool
	// list changes while mu and listed are locked; one of them is enough to read it. A write that runs
	// out of descriptors does not wait for mu.
	list   []*Output
	listed sync.Mutex

	gathered atomic.Int64 // bytes in memory for comparisons
}

// place identifies a file that may not exist: a name in a directory.
type place struct {
	dir  fileID
	base string
}

// usualMode is the default mode of an output.
const usualMode fs.FileMode = 0o666

// allowedMode returns the bits of 0777 that the umask allows. It creates a file
// to determine them.
func allowedMode(dir string) (fs.FileMode, error) {
	f, name, err := createTemp(dir, 0o777)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if name != "" {
		defer os.Remove(name)
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Mode().Perm(), nil
}

// Outputs returns an empty transaction.
func (r *Root) Outputs() *Outputs {
	return &Outputs{root: r, places: make(map[place]string)}
}

// Create adds an output; "-" is standard output and may be named several times. A
// file that is already an input or output of the request is an error.
func (s *Outputs) Create(name string) (*Output, error) {
	o := &Output{name: name, mode: usualMode, set: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil, fileError(name, os.ErrClosed)
	}
	if err := s.withDescriptor(func() error { return s.open(o) }); err != nil {
		return nil, err
	}
	s.listed.Lock()
	defer s.listed.Unlock()
	s.list = append(s.list, o)
	return o, nil
}

// withDescriptor calls fn, which opens a file. If the process or the system has reached its limit of open
// files, it closes the descriptors of outputs that are not in use, and calls fn again.
func (s *Outputs) withDescriptor(fn func() error) error {
	err := fn()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		s.listed.Lock()
		defer s.listed.Unlock()
		parked := false
		for _, o := range s.list {
			parked = o.park() || parked
		}
		if parked {
			return fn()
		}
	}
	return err
}

func (s *Outputs) open(o *Output) error {
	writer := s.root.Writers[o.name]
	switch {
	case o.name == "":
		return &Error{Name: o.name, Err: syscall.ENOENT}
	case writer == nil && o.name == "-":
		if writer = s.root.Stdout; writer == nil {
			return &Error{Name: o.name, Err: syscall.EBADF}
		}
	}
	if writer != nil {
		o.pieces, o.writer = &pieces{dir: s.root.tempDir()}, writer
		return nil
	}
	path, err := s.root.output(o.name)
	if err != nil {
		return err
	}
	target, fi, err := follow(path)
	if err != nil {
		return fileError(o.name, err)
	}
	if err := s.root.inSandbox(o.name, target); err != nil {
		return err
	}
	o.target = target
	if fi != nil {
		if fi.IsDir() {
			return &Error{Name: o.name, Err: syscall.EISDIR}
		}
		if !fi.Mode().IsRegular() || descriptor(target) {
			o.pieces = &pieces{dir: s.root.tempDir()}
			return nil
		}
		if err := writable(target); err != nil {
			return fileError(o.name, err)
		}
		o.exists, o.id, o.before = true, identify(target, fi), fi
		o.inPlace = links(fi) > 1
		if err := s.overInput(o); err != nil {
			return err
		}
	}
	dir, base := filepath.Split(target)
	if dir == "" {
		dir = "."
	}
	dfi, err := os.Stat(dir)
	if err != nil {
		return fileError(o.name, err)
	}
	at := place{identify(dir, dfi), base}
	if other, ok := s.places[at]; ok {
		return &SameFileError{Output: o.name, Other: other}
	}
	if o.exists && !o.inPlace && fi.Size() <= compareUpTo {
		o.later.Store(true)
	} else if err := o.create(dir); err != nil {
		return fileError(o.name, err)
	}
	s.places[at] = o.name
	return nil
}

// overInput returns an error for an output that would replace an input.
func (s *Outputs) overInput(o *Output) error {
	if in, ok := s.root.inputNamed(o.id); ok && o.exists {
		return &SameFileError{Output: o.name, Other: in, Input: true}
	}
	return nil
}

// output returns the path of an output on disk. In a worker request it must be
// below the root.
func (r *Root) output(name string) (string, error) {
	if r.declared == nil || name == os.DevNull {
		return r.path(name), nil
	}
	rel, ok := r.relative(name)
	if !ok {
		return "", reject(name, "is outside of the directory of the action, so it cannot be one of its outputs")
	}
	if r.declared[rel] {
		return "", reject(name, "is an input of the action: writing it would destroy the input")
	}
	return r.path(filepath.FromSlash(rel)), nil
}

// inSandbox returns an error for an output of a worker request whose symbolic
// links lead outside the sandbox directory.
func (r *Root) inSandbox(name, target string) error {
	if r.declared == nil || r.dir == "" || name == os.DevNull {
		return nil
	}
	root, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return fileError(name, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return fileError(name, err)
	}
	if rel, err := filepath.Rel(root, dir); err != nil || !filepath.IsLocal(rel) {
		return reject(name, "a symbolic link points out of the sandbox, to %s: an action writes its outputs inside the sandbox", target)
	}
	return nil
}

// follow resolves the symbolic links of the last component of path, including
// dangling ones. It returns a nil FileInfo if the file does not exist.
func follow(path string) (string, fs.FileInfo, error) {
	for range 40 {
		if descriptor(path) {
			fi, err := os.Stat(path)
			return path, fi, err
		}
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil, nil
		}
		if err != nil {
			return "", nil, err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			return path, fi, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return "", nil, syscall.ELOOP
}

// descriptor reports whether path names an open file of a process, as the
// target of /dev/stdout does. Such a file is written to, not replaced.
func descriptor(path string) bool {
	return runtime.GOOS != "windows" && (strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/fd/"))
}

// Commit completes all outputs and renames them to their final names. If it
// fails, no output is committed, previous files are restored where the system
// can revert renames, and the error names the output that failed. Inputs must
// stay open until Commit returns.
func (s *Outputs) Commit() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return os.ErrClosed
	}
	s.done = true
	defer func() {
		if err != nil {
			for _, o := range slices.Backward(s.list) {
				o.withdraw()
			}
		}
		dropAll(s.list)
		if err != nil {
			s.removeDirs()
		}
	}()
	defer guard.Into(&err)() // streams are written from mapped files
	for _, o := range s.list {
		if err := o.ready(); err != nil {
			return err
		}
		if err := s.overInput(o); err != nil {
			return err
		}
	}
	if err := s.root.unchanged(); err != nil {
		return err
	}
	if len(s.list) > 1 {
		protect()
	}
	for _, o := range s.list {
		if o.pieces != nil {
			if err := o.send(); err != nil {
				return err
			}
		}
	}
	for _, o := range s.list {
		if o.pieces == nil && !o.inPlace {
			if err := o.rename(); err != nil {
				return err
			}
		}
	}
	for _, o := range s.list {
		if o.inPlace {
			if err := o.overwrite(); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// largeToDrop is the size from which files are removed in parallel: the kernel
	// frees a gigabyte in a tenth of a second.
	largeToDrop = 1 << 20
	// dropAtOnce is the number of files removed at a time.
	dropAtOnce = 4
)

// dropAll drops all outputs, and the large ones in parallel.
func dropAll(list []*Output) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, dropAtOnce)
	for _, o := range list {
		if o.pieces != nil || o.Size() < largeToDrop && (o.before == nil || o.before.Size() < largeToDrop) {
			o.drop()
			continue
		}
		slots <- struct{}{}
		// unguarded: it closes and removes files
		wg.Go(func() {
			defer func() { <-slots }()
			o.drop()
		})
	}
	wg.Wait()
}

// Abort removes all files written. After Commit it has no effect, so that it
// can be deferred. Goroutines that write outputs must have ended.
func (s *Outputs) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.done = true
		dropAll(s.list)
		s.removeDirs()
	}
}
