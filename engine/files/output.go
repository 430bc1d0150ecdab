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
)

const (
	// outputBuffer bounds how many bytes of small writes an Output gathers.
	outputBuffer = 128 << 10
	// appendDirectly is the size from which on a Content is not gathered: a copy
	// inside the kernel of less costs more than one through the cache.
	appendDirectly = 64 << 10
	// compareUpTo is the size of the largest existing file that is compared with its
	// replacement, and compareAtOnce how many bytes of replacements one Outputs
	// gathers for that.
	compareUpTo   = 1 << 20
	compareAtOnce = 16 << 20
	// holeFrom is the number of zeros from which on they become a hole.
	holeFrom = 4 << 10
)

// Output is one file of Outputs. It is a Sink: Write, Append and Zeros go to
// its end, one goroutine at a time. WriteAt and CopyAt go to positions of their
// own and may be called by several goroutines at once, also beside the former,
// as long as no two of them touch the same bytes; Reserve makes room for them.
//
// The first failure is kept: every later call and Commit return it.
type Output struct {
	name   string      // as the request wrote it
	target string      // the file to become, behind all symbolic links
	temp   string      // the file it is until then; "" for streams and while it has no name
	file   *os.File    // nil for streams and after Close
	pieces *pieces     // what a stream will write on commit
	id     fileID      // of the file that is replaced
	exists bool        // whether there is one
	before fs.FileInfo // of the file that is replaced; nil for a new file
	// inPlace has the finished bytes copied into the existing file, which a
	// rename would lose something of.
	inPlace bool
	placed  bool // target is the new file; temp is the one before, if any
	// later has the file created when it is needed: all bytes are gathered first,
	// as the existing file may have the same ones.
	later     atomic.Bool
	same      bool // the existing file has the bytes and stays
	mode      fs.FileMode
	exactMode bool // mode is set whatever the umask

	set *Outputs // that it belongs to

	// inUse is held for reading while the descriptor is used, and for writing
	// while it is given up or opened again. Lock mu before it.
	inUse  sync.RWMutex
	parked bool // the descriptor was given up: the file is under its temporary name

	mu   sync.Mutex
	buf  []byte // small writes; they end at pos
	pos  int64  // where the next sequential byte goes
	size int64  // behind the last byte written by position
	err  error

	gathered int64 // bytes in buf that count in set
}

// Name returns the name of the output as the request wrote it.
func (o *Output) Name() string { return o.name }

// Size returns the number of bytes of the output so far, holes and reserved
// ranges included.
func (o *Output) Size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.size, o.pos)
}

// SetMode sets the permission bits, from which the umask is taken away as for
// a new file. Without it they are those of the file that is replaced, or 0666.
func (o *Output) SetMode(m fs.FileMode) { o.mode = m.Perm() }

// KeepMode sets the permission bits to those of another file, whatever the umask.
func (o *Output) KeepMode(m fs.FileMode) { o.mode, o.exactMode = m.Perm(), true }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	if err := o.add(Memory(p), outputBuffer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Append implements Sink. For an output that is a stream, c must stay valid
// until Commit.
func (o *Output) Append(c Content) error { return o.add(c, appendDirectly) }

// add puts c at the end; less than direct bytes may wait in the buffer.
func (o *Output) add(c Content, direct int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	gather := o.gather(c.Len())
	if !gather && (len(o.buf)+len(c.data) > outputBuffer || len(c.data) >= direct) {
		o.flush()
	}
	pos := o.advance(c.Len())
	if o.err != nil {
		return o.err
	}
	if !gather && len(c.data) >= direct {
		o.fail(o.put(c, pos))
		return o.err
	}
	o.buf = append(o.buf, c.data...)
	return nil
}

// gather reports whether the next n bytes wait in memory until all bytes can be
// compared with those of the existing file. It needs mu.
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

// compare finds out whether the existing file has the bytes that were gathered. It
// needs mu.
func (o *Output) compare() bool {
	defer func() {
		o.set.gathered.Add(-o.gathered)
		o.gathered = 0
	}()
	if !o.later.Load() || o.err != nil || o.size > 0 || o.pos != int64(len(o.buf)) || o.pos != o.before.Size() || o.mode != usualMode || o.exactMode {
		return false
	}
	f, err := os.Open(o.target)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !os.SameFile(fi, o.before) || fi.Size() != o.pos {
		return false
	}
	var block [32 << 10]byte
	for rest := o.buf; len(rest) > 0; {
		n, err := f.Read(block[:min(len(rest), len(block))])
		if err != nil || !bytes.Equal(block[:n], rest[:n]) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// Zeros implements Sink. From a page on, zeros are a hole: they take no time
// and no space.
func (o *Output) Zeros(n int64) error {
	if 0 <= n && n < holeFrom {
		return o.add(Memory(zeros[:n]), outputBuffer)
	}
	_, err := o.Reserve(n)
	return err
}

var zeros [holeFrom]byte

// Reserve leaves room for n bytes at the end and returns where it starts. What
// is not filled by WriteAt or CopyAt reads as zeros.
func (o *Output) Reserve(n int64) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.advance(n), o.err
}

// WriteAt implements io.WriterAt. It may fill a reserved range or patch bytes
// written before.
func (o *Output) WriteAt(p []byte, off int64) (int, error) {
	if err := o.CopyAt(Memory(p), off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CopyAt writes c at off, copying inside the kernel where it can. For an output
// that is a stream, c must stay valid until Commit.
func (o *Output) CopyAt(c Content, off int64) error {
	if err := o.place(off, c.Len()); err != nil {
		return err
	}
	err := o.put(c, off)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(err)
	return o.err
}

// place prepares for n bytes at off.
func (o *Output) place(off, n int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if off < 0 || n > math.MaxInt64-off {
		o.fail(syscall.EFBIG)
	} else {
		o.size = max(o.size, off+n)
	}
	// Bytes that wait must not come after those that are to replace them.
	if off < o.pos && off+n > o.pos-int64(len(o.buf)) {
		o.flush()
	}
	return o.err
}

// advance moves the end n bytes on and returns where it was. It needs mu.
func (o *Output) advance(n int64) int64 {
	pos := o.pos
	if n < 0 || n > math.MaxInt64-pos {
		o.fail(syscall.EFBIG)
		return pos
	}
	o.pos += n
	return pos
}

// flush writes what waits in the buffer. It needs mu.
func (o *Output) flush() {
	if len(o.buf) > 0 && o.err == nil {
		o.fail(o.put(Memory(o.buf), o.pos-int64(len(o.buf))))
		o.buf = o.buf[:0]
	}
}

// fail keeps the first error. It needs mu.
func (o *Output) fail(err error) {
	if err != nil && o.err == nil {
		o.err = fileError(o.name, err)
	}
}

// put writes c at off.
func (o *Output) put(c Content, off int64) error {
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

// acquire returns the open file and holds inUse for reading, unless it fails.
func (o *Output) acquire() (*os.File, error) {
	for {
		o.inUse.RLock()
		if o.later.Load() {
			o.inUse.RUnlock()
			if err := o.createLater(); err != nil {
				return nil, err
			}
			continue
		}
		if !o.parked {
			if o.file == nil {
				o.inUse.RUnlock()
				return nil, os.ErrClosed
			}
			return o.file, nil
		}
		o.inUse.RUnlock()
		if err := o.unpark(); err != nil {
			return nil, err
		}
	}
}

// create creates the file, in the directory of the target if that can be.
func (o *Output) create(dir string) (err error) {
	o.file, o.temp, err = createTemp(dir, usualMode)
	if err != nil && o.exists && notPermitted(err) {
		o.inPlace = true
		o.file, o.temp, err = createTemp(o.set.root.tempDir(), usualMode)
	}
	return err
}

// createLater creates a file that was not created before, in place of the
// descriptors of others if there are no more.
func (o *Output) createLater() error {
	o.inUse.Lock()
	defer o.inUse.Unlock()
	if !o.later.Load() {
		return nil
	}
	dir := filepath.Dir(o.target)
	err := o.create(dir)
	if outOfDescriptors(err) && o.set.park() {
		err = o.create(dir)
	}
	if err != nil {
		return err
	}
	o.later.Store(false)
	return nil
}

// unpark opens a parked file again, in place of the descriptors of others if
// there are no more.
func (o *Output) unpark() error {
	o.inUse.Lock()
	defer o.inUse.Unlock()
	if !o.parked {
		return nil
	}
	f, err := os.OpenFile(o.temp, os.O_RDWR, 0)
	if outOfDescriptors(err) && o.set.park() {
		f, err = os.OpenFile(o.temp, os.O_RDWR, 0)
	}
	if err != nil {
		return err
	}
	o.file, o.parked = f, false
	return nil
}

// park gives up the descriptor of a file that nobody is using, and reports
// whether it did.
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

// outOfDescriptors reports whether the process, or the system, can open no more files.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// copyTo writes c to f at off, first inside the kernel, then from the mapping.
func copyTo(f *os.File, c Content, off int64) error {
	var done int64
	if c.in != nil && c.in.file != nil {
		done = copyRange(f, off, c.in.file, c.off, c.Len())
	}
	if done == c.Len() {
		return nil
	}
	_, err := f.WriteAt(c.data[done:], off+done)
	if errors.Is(err, syscall.EFAULT) && c.in != nil && c.in.mapping != nil {
		// The kernel met the end of a mapped file that was cut short.
		return &inputLost{c.in.lost(c.off + done)}
	}
	return err
}

// Close writes what still waits and closes the file, which only Commit will put
// in its place. Commit does it for outputs that are still open; Close before
// serves requests with more outputs than a process may have open files.
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
		o.fail(o.nameTemp())
	}
	o.fail(o.file.Close())
	o.file = nil
	return o.err
}

// complete writes what still waits and gives the file its size and mode.
func (o *Output) complete() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.same || o.compare() {
		o.same, o.buf = true, nil
		o.later.Store(false)
		return o.err
	}
	o.flush()
	o.buf = nil
	if o.pieces != nil || o.err != nil {
		return o.err
	}
	f, err := o.acquire()
	if errors.Is(err, os.ErrClosed) {
		return o.err // complete already
	}
	if err == nil {
		err = o.finish(f)
		o.inUse.RUnlock()
	}
	o.fail(err)
	return o.err
}

// ready makes the file ready for rename.
func (o *Output) ready() error {
	if o.temp == "" {
		return o.complete() // closing a file without a name would end it
	}
	return o.Close()
}

// finish gives the file its size and mode.
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

// rename puts the file in its place.
func (o *Output) rename() error {
	if o.same {
		if err := touch(o.target); err != nil {
			return fileError(o.name, err)
		}
		return nil
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
		if err != nil {
			return fileError(o.name, err)
		}
	}
	if !o.exists || exchange(o.temp, o.target) != nil {
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

// notPermitted reports whether the system refuses to change a directory.
func notPermitted(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// overwrite copies the finished file into the one that it replaces.
func (o *Output) overwrite() error {
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
		return &Error{Name: o.name, Err: fmt.Errorf("incomplete, since it had to be written in place: %w", fileError(o.name, err).(*Error).Err)}
	}
	return nil
}

// nameTemp gives a file without a name a temporary one.
func (o *Output) nameTemp() (err error) {
	lockFile(o.file)
	o.temp, err = tempName(filepath.Dir(o.target), func(name string) error { return linkFile(o.file, name) })
	return err
}

// withdraw takes rename back.
func (o *Output) withdraw() {
	switch {
	case !o.placed:
	case o.temp == "":
		os.Remove(o.target)
	default:
		_ = exchange(o.temp, o.target)
	}
}

// drop closes the file and removes what is left under the temporary name.
func (o *Output) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(os.ErrClosed)
	o.inUse.Lock()
	defer o.inUse.Unlock()
	o.parked = false
	o.later.Store(false)
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

// send writes a stream to its destination.
func (o *Output) send(stdout io.Writer) error {
	defer o.pieces.close()
	w := stdout
	if o.target != "" {
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
