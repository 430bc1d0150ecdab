package files

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// mapFrom is the size from which a file is mapped. Reading a smaller file
	// costs less than the mapping and its page faults.
	mapFrom = 32 << 10
	// usualMaxStream is the default of Root.MaxStream.
	usualMaxStream = 8 << 30
)

// Input is an input file opened through a Root, or bytes in memory with a file
// name. Its bytes are read-only and valid until Close.
type Input struct {
	name    string
	data    []byte
	mode    fs.FileMode
	file    *guard.File    // kept for copies inside the kernel; nil for memory
	mapping *guard.Mapping // nil for memory
	root    *Root          // nil for memory
	state   state          // of the file when it was opened
}

// state is the metadata of a file that a write changes.
type state struct {
	size     int64
	modified time.Time
}

func stateOf(fi fs.FileInfo) state { return state{fi.Size(), fi.ModTime()} }

// check returns an error if the file has changed since it was opened.
func (in *Input) check() error {
	fi, err := in.file.Stat()
	if err != nil {
		return fileError(in.name, err)
	}
	return in.same(fi)
}

// same returns an error if fi differs from the state of the file when it was
// opened.
func (in *Input) same(fi fs.FileInfo) error {
	if now := stateOf(fi); !now.modified.Equal(in.state.modified) || now.size != in.state.size {
		return changedError(in.name, in.state, now)
	}
	return nil
}

func changedError(name string, before, after state) error {
	if before.size != after.size {
		return reject(name, "the file changed from %d to %d bytes while it was read: try again when no process writes to it", before.size, after.size)
	}
	return reject(name, "the file was modified while it was read: try again when no process writes to it")
}

// FromMemory returns an Input with the bytes b, such as a decompressed file.
// Messages refer to it as name. b must not change while the Input is in use.
func FromMemory(name string, b []byte) *Input { return &Input{name: name, data: b, mode: 0o666} }

// Open opens an input for reading; "-" is standard input. Regular files are
// mapped; pipes and devices are read into memory to their end. Failures of the
// system are of type *Error; the error for a name outside the declared inputs
// is of another type.
func (r *Root) Open(name string) (*Input, error) {
	if b, ok := r.Contents[name]; ok {
		return FromMemory(name, b), nil
	}
	if name == "-" {
		b, err := r.standardInput()
		if err != nil {
			return nil, err
		}
		return FromMemory(name, b), nil
	}
	if name == "" {
		return nil, &Error{Name: name, Err: syscall.ENOENT}
	}
	return r.openNamed(name)
}

// OpenRegular opens an input whose name was read from a file instead of the
// request. It rejects devices and pipes, which may never end, and treats "-" as
// a file name.
func (r *Root) OpenRegular(name string) (*Input, error) {
	if b, ok := r.Contents[name]; ok {
		return FromMemory(name, b), nil
	}
	path, err := r.input(name)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fileError(name, err)
	}
	if !fi.Mode().IsRegular() {
		return nil, &Error{Name: name, Err: errors.New("not a regular file")}
	}
	return r.openNamed(name)
}

// OpenToReplace opens a regular file that an output of the same name will replace,
// such as an archive to add members to.
func (r *Root) OpenToReplace(name string) (*Input, error) {
	input, err := r.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, known := range r.inputs {
		if known == name {
			delete(r.inputs, id)
		}
	}
	return input, nil
}

func (r *Root) openNamed(name string) (*Input, error) {
	path, err := r.input(name)
	if err != nil {
		return nil, err
	}
	f, err := openBlocking(path)
	if err != nil {
		return nil, fileError(name, err)
	}
	in, err := r.openFile(name, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if in.file == nil {
		f.Close()
	}
	if r.RejectPointers && isPointer(in.data) {
		in.Close()
		return nil, reject(name, "Git LFS pointer, not the file itself; run git lfs pull")
	}
	return in, nil
}

// isPointer reports whether the content of a file is a Git LFS pointer.
func isPointer(data []byte) bool {
	const most = 1024 // bytes, by the specification of Git LFS
	return len(data) < most && bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/"))
}

func (r *Root) openFile(name string, f *os.File) (*Input, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, fileError(name, err)
	}
	if fi.IsDir() {
		return nil, &Error{Name: name, Err: syscall.EISDIR}
	}
	in := &Input{name: name, mode: fi.Mode().Perm(), root: r, state: stateOf(fi)}
	if !fi.Mode().IsRegular() {
		in.data, err = r.readStream(name, f)
		return in, err
	}
	r.opened(identify(f.Name(), fi), name)
	size := fi.Size()
	if int64(int(size)) != size {
		return nil, &Error{Name: name, Err: syscall.EFBIG}
	}
	if size >= mapFrom {
		if in.data, err = mapFile(f, int(size)); err == nil {
			in.file = &guard.File{File: f, Label: name, Size: size}
			in.mapping = guard.Map(in.data, in.file, 0)
			r.reading(in)
			return in, nil
		}
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.ENODEV) {
			return nil, fileError(name, err)
		}
	}
	// Files in /proc and /sys have size 0, so read until the end.
	if size == 0 {
		in.data, err = r.readStream(name, f)
		return in, err
	}
	in.data = make([]byte, size)
	n, err := io.ReadFull(f, in.data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	in.data = in.data[:n:n]
	after, err := f.Stat()
	if err != nil {
		return nil, fileError(name, err)
	}
	if err := in.same(after); err != nil {
		return nil, err
	}
	return in, nil
}

// readStream reads in to its end. Its buffer grows with the bytes read.
func (r *Root) readStream(name string, in io.Reader) ([]byte, error) {
	var most int64
	if r.MaxStream != nil {
		most = r.MaxStream()
	}
	most = cmp.Or(most, usualMaxStream)
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if int64(len(b)) > most {
		return nil, reject(name, "more than %d bytes from an input that is not a regular file: use a file, or raise the limit of memory", most)
	}
	return b, nil
}

// Name returns the name of the input as the request wrote it.
func (in *Input) Name() string { return in.name }

// Size returns the number of bytes.
func (in *Input) Size() int64 { return int64(len(in.data)) }

// Mode returns the permission bits of the file, 0666 for memory.
func (in *Input) Mode() fs.FileMode { return in.mode }

// Mapped returns all bytes, see [content.Content.Mapped]. Other modules read those of All.
func (in *Input) Mapped(guard.Token) []byte { return in.data }

// All returns the complete input as a Content, valid until Close.
func (in *Input) All() content.Content { return in.Content(0, in.Size()) }

// Content returns n bytes starting at off. Like slicing a []byte, it panics if
// the range is not inside the input: check untrusted ranges first.
func (in *Input) Content(off, n int64) content.Content {
	return content.Of(in, in.data, 0).Slice(off, n)
}

// ReadAt implements io.ReaderAt. Bytes of a mapped file are read from the file, so that its mapping
// takes no memory.
func (in *Input) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > in.Size() {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), in.Size()-off))
	if in.mapping == nil {
		copy(p, in.data[off:])
	} else if k, err := in.file.ReadAt(p[:n], off); k < n {
		if errors.Is(err, io.EOF) {
			return k, in.file.Lost(off + int64(k))
		}
		return k, fileError(in.name, err)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// MappedFile returns the open file if the input is mapped, for mapping ranges of it again, nil otherwise.
func (in *Input) MappedFile() *os.File {
	if in.mapping == nil {
		return nil
	}
	return in.file.File
}

// inputOf returns the Input that c is a range of and the offset in it, nil for other contents.
func inputOf(c content.Content) (*Input, int64) {
	file, off := c.File()
	in, _ := file.(*Input)
	return in, off
}

// Close releases the mapping and the file. Contents and slices of the input
// must not be used afterwards. Closing twice, or closing a nil Input, has no
// effect.
func (in *Input) Close() error {
	if in == nil || in.file == nil {
		return nil
	}
	if in.root != nil {
		in.root.doneReading(in)
	}
	if in.mapping != nil {
		in.mapping.Forget()
	}
	f, data := in.file, in.data
	in.file, in.data = nil, nil
	var err error
	if in.mapping != nil {
		err = unmap(data)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fileError(in.name, err)
	}
	return nil
}
