package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// outputBuffer is the largest number of bytes of small writes that an Output
	// buffers.
	outputBuffer = 128 << 10
	// appendDirectly is the size from which a Content is not buffered. A copy of
	// fewer bytes inside the kernel costs more than one through the cache.
	appendDirectly = 64 << 10
	// compareUpTo is the largest size of an existing file that is compared with its
	// replacement, and compareAtOnce the number of bytes of replacements that one
	// Outputs buffers for comparisons.
	compareUpTo   = 1 << 20
	compareAtOnce = 16 << 20
	// holeFrom is the smallest number of zeros that are written as a hole.
	holeFrom = 4 << 10
)

// Output is one file of Outputs. It is a content.Sink: Write, Append and Zeros append
// to it and must not be called concurrently. WriteAt and CopyAt write at given
// offsets and may be called concurrently, also with the former, as long as no
// two calls write the same bytes; Reserve reserves a range for them.
//
// After the first failure, every later call and Commit return its error.
type Output struct {
	name   string      // as the request wrote it
	target string      // the file to replace, after resolving symbolic links
	temp   string      // temporary name; "" for streams and while the file has no name
	dir    string      // the directory in which the file was created
	file   *os.File    // nil for streams and after Close
	pieces *pieces     // content of a stream, written on commit
	writer io.Writer   // of the stream; nil for a device or a pipe
	id     fileID      // of the file that is replaced
	exists bool        // whether a file is replaced
	before fs.FileInfo // of the file that is replaced; nil for a new file
	// inPlace selects copying the finished bytes to the existing file, if a rename
	// would lose some of its properties.
	inPlace bool
	placed  bool // target is the new file; temp is the previous one, if any
	// later delays the creation of the file: bytes are buffered first, because the
	// existing file may have the same bytes.
	later     atomic.Bool
	same      bool // the existing file has the bytes in buf and is not replaced
	mode      fs.FileMode
	exactMode bool // mode is set regardless of the umask

	set *Outputs // the Outputs that it belongs to

	// inUse is held for reading while the descriptor is used, and for writing
	// while it is closed or reopened. Lock mu before it.
	inUse  sync.RWMutex
	parked bool // the descriptor was closed: the file has its temporary name

	mu   sync.Mutex
	buf  []byte // small writes; they end at pos
	pos  int64  // offset of the next sequential byte
	size int64  // offset after the last byte written at an offset
	err  error

	gathered int64 // bytes of buf that are counted in set
}

// Size returns the current size of the output in bytes, including holes and
// reserved ranges.
func (o *Output) Size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.size, o.pos)
}

// SetMode sets the permission bits, to which the umask is applied as for a new
// file. The default is the mode of the file that is replaced, or 0666.
func (o *Output) SetMode(m fs.FileMode) { o.mode = m.Perm() }

// KeepMode sets the permission bits to those of another file, regardless of the
// umask.
func (o *Output) KeepMode(m fs.FileMode) { o.mode, o.exactMode = m.Perm(), true }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	if err := o.add(content.Memory(p), outputBuffer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Append implements content.Sink. For an output that is a stream, c must stay valid
// until Commit.
func (o *Output) Append(c content.Content) error {
	return o.reading(func() error { return o.add(c, appendDirectly) }) // unguarded: reading has a guard
}

// reading runs fn, which reads a content. A mapped file that can no longer be read is a failure of the
// output.
func (o *Output) reading(fn func() error) error {
	err := guard.Faults(fn)
	if lost, ok := errors.AsType[*guard.LostError](err); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.fail(&inputLost{lost})
		return o.err
	}
	return err
}

// add appends c. It may buffer c if it has fewer than direct bytes.
func (o *Output) add(c content.Content, direct int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	gather := o.gather(c.Len())
	if !gather && (len(o.buf)+len(c.Mapped(guard.Inside)) > outputBuffer || len(c.Mapped(guard.Inside)) >= direct) {
		o.flush()
	}
	pos := o.advance(c.Len())
	if o.err != nil {
		return o.err
	}
	if !gather && len(c.Mapped(guard.Inside)) >= direct {
		o.fail(o.put(c, pos))
		return o.err
	}
	o.buf = append(o.buf, c.Mapped(guard.Inside)...)
	return nil
}

// gather reports whether the next n bytes are buffered until all bytes can be
// compared with those of the existing file. It requires mu.
func (o *Output) gather(n int64) bool {
	if !o.later.Load() || o.pos != int64(len(o.buf)) || n > o.before.Size()-o.pos {
		return false
	}
	if o.set.gathered.Add(n) > compareAtOnce {
		o.set.gathered.Add(-n)
		return false
	}
	if o.buf == nil {
		o.buf = make([]byte, 0, o.before.Size())
	}
	o.gathered += n
	return true
}

// compare reports whether the existing file has the buffered bytes. They stay in memory if it has, because
// another process can change it before Commit. It requires mu.
func (o *Output) compare() bool {
	if o.later.Load() && o.err == nil && o.size == 0 && o.pos == int64(len(o.buf)) && o.pos == o.before.Size() &&
		o.mode == usualMode && !o.exactMode && o.equal() {
		return true
	}
	o.ungather()
	return false
}

// ungather ends the counting of buffered bytes in set. It requires mu.
func (o *Output) ungather() {
	o.set.gathered.Add(-o.gathered)
	o.gathered = 0
}

// equal compares the file that is replaced with the buffered bytes. It requires mu.
func (o *Output) equal() bool {
	// A pipe that has the name by now, maybe with the number of the previous file, would block.
	if now, err := os.Lstat(o.target); err != nil || !now.Mode().IsRegular() || !os.SameFile(now, o.before) {
		return false
	}
	f, err := openBlocking(o.target)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !os.SameFile(fi, o.before) || fi.Size() != o.pos {
		return false
	}
	block := make([]byte, min(len(o.buf), 32<<10))
	for rest := o.buf; len(rest) > 0; {
		n, err := f.Read(block[:min(len(rest), len(block))])
		if err != nil || !bytes.Equal(block[:n], rest[:n]) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// Zeros implements content.Sink. Zeros of a page or more are written as a hole, which
// takes no time and no space.
func (o *Output) Zeros(n int64) error {
	if 0 <= n && n < holeFrom {
		return o.add(content.Memory(zeros[:n]), outputBuffer)
	}
	_, err := o.Reserve(n)
	return err
}

var zeros [holeFrom]byte

// Reserve reserves n bytes at the end and returns their offset. Bytes not
// written by WriteAt or CopyAt are zero.
func (o *Output) Reserve(n int64) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.advance(n), o.err
}

// WriteAt implements io.WriterAt. It may fill a reserved range or overwrite
// earlier bytes.
func (o *Output) WriteAt(p []byte, off int64) (int, error) {
	if err := o.CopyAt(content.Memory(p), off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CopyAt writes c at off, and copies it inside the kernel if possible. For an
// output that is a stream, c must stay valid until Commit.
func (o *Output) CopyAt(c content.Content, off int64) error {
	if err := o.place(off, c.Len()); err != nil {
		return err
	}
	err := o.reading(func() error { return o.put(c, off) }) // unguarded: reading has a guard
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(err)
	return o.err
}

// place prepares a write of n bytes at off.
func (o *Output) place(off, n int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if off < 0 || n > math.MaxInt64-off {
		o.fail(syscall.EFBIG)
	} else {
		o.size = max(o.size, off+n)
	}
	// Buffered bytes must be written before bytes that overwrite them.
	if off < o.pos && off+n > o.pos-int64(len(o.buf)) {
		o.flush()
	}
	return o.err
}

// advance moves the end by n bytes and returns the previous end. It requires
// mu.
func (o *Output) advance(n int64) int64 {
	pos := o.pos
	if n < 0 || n > math.MaxInt64-pos {
		o.fail(syscall.EFBIG)
		return pos
	}
	o.pos += n
	return pos
}

// flush writes the buffered bytes. It requires mu.
func (o *Output) flush() {
	if len(o.buf) > 0 && o.err == nil {
		o.fail(o.put(content.Memory(o.buf), o.pos-int64(len(o.buf))))
		o.buf = o.buf[:0]
	}
}

// fail records the first error. It requires mu.
func (o *Output) fail(err error) {
	if err != nil && o.err == nil {
		o.err = fileError(o.name, err)
	}
}

// put writes c at off, without the buffer.
func (o *Output) put(c content.Content, off int64) error {
	if o.pieces != nil {
		return o.pieces.add(c, off)
	}
	f, err := o.acquire()
	if err != nil {
		return err
	}
	defer o.inUse.RUnlock()
	return copyTo(f, c, off)
}

// acquire returns the open file and locks inUse for reading, unless it fails.
func (o *Output) acquire() (*os.File, error) {
	for {
		o.inUse.RLock()
		if o.file != nil {
			return o.file, nil
		}
		o.inUse.RUnlock()
		if err := o.reopen(); err != nil {
			return nil, err
		}
	}
}

// reopen creates a file whose creation was delayed, or opens a parked one.
func (o *Output) reopen() error {
	o.inUse.Lock()
	defer o.inUse.Unlock()
	return o.set.withDescriptor(func() (err error) {
		switch {
		case o.file != nil: // by another goroutine
		case o.later.Load():
			if err = o.create(filepath.Dir(o.target)); err == nil {
				o.later.Store(false)
			}
		case o.parked:
			if o.file, err = os.OpenFile(o.temp, os.O_RDWR, 0); err == nil {
				o.parked = false
			}
		default:
			err = os.ErrClosed
		}
		return err
	})
}

// create creates the file, in the directory of the target if possible.
func (o *Output) create(dir string) (err error) {
	o.dir = dir
	o.file, o.temp, err = createTemp(o.dir, usualMode)
	if err != nil && o.exists && notPermitted(err) {
		o.inPlace, o.dir = true, o.set.root.tempDir()
		o.file, o.temp, err = createTemp(o.dir, usualMode)
	}
	return err
}

// park closes the descriptor of a file that is not in use, and reports whether
// it did.
func (o *Output) park() bool {
	if !o.inUse.TryLock() {
		return false
	}
	defer o.inUse.Unlock()
	if o.file == nil || o.temp == "" && o.nameTemp() != nil {
		return false
	}
	o.parked = o.file.Close() == nil
	o.file = nil
	return o.parked
}

// copyTo writes c to f at off: inside the kernel if possible, and the rest from
// the mapping.
func copyTo(f *os.File, c content.Content, off int64) error {
	var done int64
	in, from := inputOf(c)
	if in != nil && in.file != nil {
		done = copyRange(f, off, in.file.File, from, c.Len())
	}
	if done == c.Len() {
		return nil
	}
	_, err := f.WriteAt(c.Mapped(guard.Inside)[done:], off+done)
	if errors.Is(err, syscall.EFAULT) && in != nil && in.mapping != nil {
		// The kernel reached the end of a mapped file that was truncated.
		return &inputLost{in.file.Lost(from + done)}
	}
	return err
}

// Close writes the buffered bytes and closes the file. Commit renames the file
// to its final name; it also closes outputs that are still open. An earlier
// Close is for requests with more outputs than a process may have open files.
func (o *Output) Close() error {
	if err := o.complete(); err != nil || o.pieces != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inUse.Lock()
	defer o.inUse.Unlock()
	if o.file == nil {
		return o.err
	}
	if o.temp == "" {
		err := o.nameTemp()
		if errors.Is(err, appendOnlyError{}) {
			return o.err // Commit closes the file
		}
		o.fail(err)
	}
	o.fail(o.file.Close())
	o.file = nil
	return o.err
}

// complete writes the buffered bytes and sets the size and mode of the file.
func (o *Output) complete() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.same || o.compare() {
		o.same = true
		o.later.Store(false)
		return o.err
	}
	return o.finishWriting()
}

// finishWriting writes the buffered bytes and sets the size and mode of the file. It requires mu.
func (o *Output) finishWriting() error {
	o.flush()
	o.buf = nil
	if o.pieces != nil || o.err != nil {
		return o.err
	}
	f, err := o.acquire()
	if errors.Is(err, os.ErrClosed) {
		return o.err // already complete
	}
	if err == nil {
		err = o.finish(f)
		o.inUse.RUnlock()
	}
	o.fail(err)
	return o.err
}

// ready prepares the file for rename.
func (o *Output) ready() error {
	if o.temp == "" {
		return o.complete() // closing a file without a name would delete it
	}
	return o.Close()
}

// finish sets the size and mode of the file.
func (o *Output) finish(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if size := max(o.pos, o.size); fi.Size() < size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	if o.inPlace {
		return nil
	}
	if o.exists {
		if err := keepOwner(f, fi, o.before); err != nil {
			o.inPlace = true // writing into the file does not change its owner
			return nil
		}
	}
	if o.exactMode {
		return f.Chmod(o.mode)
	}
	if o.mode == usualMode {
		if o.exists && fi.Mode().Perm() != o.before.Mode().Perm() {
			return f.Chmod(o.before.Mode().Perm())
		}
		return nil
	}
	allowed, err := allowedMode(filepath.Dir(o.target))
	if err != nil {
		return err
	}
	return f.Chmod(o.mode & allowed)
}

// rename renames the file to its final name.
func (o *Output) rename() error {
	if done, err := o.keep(); done || err != nil {
		return err
	}
	if o.temp == "" {
		err := fs.ErrExist
		if !o.exists {
			err = linkFile(o.file, o.target)
		}
		if err == nil {
			o.placed = true
			return nil
		}
		if errors.Is(err, fs.ErrExist) {
			err = o.nameTemp()
		}
		if errors.Is(err, appendOnlyError{}) && o.exists {
			o.inPlace = true
			return nil
		}
		if err != nil {
			return fileError(o.name, err)
		}
	}
	if o.exists && exchange(o.temp, o.target) == nil {
		if err := o.checkReplaced(); err != nil {
			return err
		}
	} else {
		if err := o.checkTarget(); err != nil {
			return err
		}
		if err := os.Rename(o.temp, o.target); err != nil {
			if o.exists && (notPermitted(err) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV)) {
				o.inPlace = true // a sticky directory, or a mount point
				return nil
			}
			return fileError(o.name, err)
		}
		o.temp = ""
	}
	o.placed = true
	return nil
}

// keep updates the time of an existing file that has the same bytes, and reports whether it did. If the file
// has changed since it was compared, keep writes a new one.
func (o *Output) keep() (bool, error) {
	if !o.same {
		return false, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.equal() {
		if err := touch(o.target); err != nil {
			return false, fileError(o.name, err)
		}
		return true, nil
	}
	o.same = false
	o.later.Store(true)
	return false, o.finishWriting()
}

// checkReplaced returns an error if what exchange moved to the temporary name is not a file, such as a
// directory that another process created under the name of the output. It moves it back.
func (o *Output) checkReplaced() error {
	fi, err := os.Lstat(o.temp)
	if err != nil || fi.Mode().IsRegular() {
		return nil
	}
	if err := exchange(o.temp, o.target); err != nil {
		moved := o.temp
		o.temp = "" // it is not the file of this output
		return reject(o.name, "%s took its place while it was written, and is now %s: move it", kind(fi.Mode()), moved)
	}
	return o.taken(fi)
}

// checkTarget returns an error if the name of the output is taken by something that is not a file.
func (o *Output) checkTarget() error {
	if fi, err := os.Lstat(o.target); err == nil && !fi.Mode().IsRegular() {
		return o.taken(fi)
	}
	return nil
}

// taken returns the error for an output whose name something else than a file has.
func (o *Output) taken(fi fs.FileInfo) error {
	return reject(o.name, "%s took its place while it was written, expected a file: remove it, or choose another name", kind(fi.Mode()))
}

// kind describes what is not a regular file.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device or socket"
}

// notPermitted reports whether an error means that the directory may not be changed.
func notPermitted(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// overwrite copies the finished file to the one that it replaces.
func (o *Output) overwrite() error {
	protect()
	if err := o.checkTarget(); err != nil {
		return err // opening a pipe would block
	}
	from := o.file
	if from == nil {
		var err error
		if from, err = os.Open(o.temp); err != nil {
			return fileError(o.name, err)
		}
		defer from.Close()
	}
	size := o.Size()
	to, err := os.OpenFile(o.target, os.O_WRONLY, 0)
	if err != nil {
		return fileError(o.name, err)
	}
	defer to.Close()
	done := copyRange(to, 0, from, 0, size)
	if done < size {
		_, err = io.Copy(io.NewOffsetWriter(to, done), io.NewSectionReader(from, done, size-done))
	}
	if err == nil {
		err = to.Truncate(size)
	}
	if err != nil {
		return &Error{Name: o.name, Err: fmt.Errorf("incomplete, because it was written in place: %w", fileError(o.name, err).(*Error).Err)}
	}
	return nil
}

// nameTemp gives a temporary name to a file without a name.
func (o *Output) nameTemp() (err error) {
	lockFile(o.file)
	fi, err := o.file.Stat()
	if err != nil {
		return err
	}
	o.temp, err = tempName(o.dir, inodeOf(fi), func(name string) error { return linkFile(o.file, name) })
	return err
}

// withdraw reverts rename.
func (o *Output) withdraw() {
	switch {
	case !o.placed, o.checkTarget() != nil: // it has not been replaced, or is not the file of this output any longer
	case o.temp == "":
		os.Remove(o.target)
	default:
		_ = exchange(o.temp, o.target)
	}
}

// drop closes the file and removes its temporary name.
func (o *Output) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = &Error{Name: o.name, Err: os.ErrClosed}
	}
	o.inUse.Lock()
	defer o.inUse.Unlock()
	o.parked = false
	o.later.Store(false)
	o.ungather()
	o.buf = nil
	if o.pieces != nil {
		o.pieces.close()
	}
	if o.file != nil {
		o.file.Close()
		o.file = nil
	}
	if o.temp != "" {
		os.Remove(o.temp)
		o.temp = ""
	}
}

// send writes the content of a stream to its destination.
func (o *Output) send() error {
	defer o.pieces.close()
	w := o.writer
	if w == nil {
		f, err := os.OpenFile(o.target, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return fileError(o.name, err)
		}
		defer f.Close()
		w = f
	}
	if err := o.pieces.writeTo(w, o.Size()); err != nil {
		return fileError(o.name, err)
	}
	return nil
}
