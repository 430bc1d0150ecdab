// Package content has the bytes that formats are read from and written to: a [Content] is bytes in
// memory or a range of an open file, and a [Sink] receives them. A writer of a format appends
// Contents to a Sink instead of copying them, so that the operating system can copy ranges of files.
//
// To write a format to any writer, pass &WriterSink{W: w}; to write it to memory, a [Buffer].
//
// Files can be mapped. Reading bytes of a mapping after the file was cut short, or after a disk error,
// ends the process, unless the goroutine is prepared for it. [Content.Bytes], [Content.View], ReadAt and
// the sinks of this package are: they return an error that names the file.
package content

import (
	"io"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Content is a sequence of bytes in memory or a range of an input file. Format
// writers pass Contents instead of bytes to a Sink, so that a range of a file
// can be copied inside the kernel.
//
// A Content of a file is valid while the file is open. The zero value is empty.
type Content struct {
	data []byte // the bytes; mapped if they are from a file
	file io.ReaderAt
	off  int64 // offset of data in file
}

// Memory returns b as a Content. b must not change while the Content is in use.
func Memory(b []byte) Content { return Content{data: b} }

// Of returns the bytes b, which an open file has at offset off. They can be a
// read-only mapping of the file: the methods of Content that return errors read them from the file, or
// convert faults. Both must stay valid while the Content is in use.
func Of(file io.ReaderAt, b []byte, off int64) Content { return Content{b, file, off} }

// File returns the file of the Content and the offset in it, or nil for memory.
func (c Content) File() (file io.ReaderAt, off int64) { return c.file, c.off }

// Len returns the number of bytes.
func (c Content) Len() int64 { return int64(len(c.data)) }

// Bytes returns the bytes, which must not be modified. Those of a file are read from it into new memory,
// so they stay valid after it is closed. The error is that of reading the file, such as a file that was cut
// short; it is nil for bytes in memory. To read bytes of a file without copying them, see View.
func (c Content) Bytes() ([]byte, error) {
	if c.file == nil {
		return c.data, nil
	}
	b := make([]byte, c.Len()) // unguarded: ReadAt calls the system to read
	n, err := c.ReadAt(b, 0)
	switch {
	case n == len(b):
		return b, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// View calls fn with the bytes, without copying them, and returns its error. If fn reads a byte of a file
// that can no longer be read, because the file was cut short or the disk failed, View returns an error that
// names the file. fn must not modify the bytes, use them after it returns, or pass them to another
// goroutine.
func (c Content) View(fn func(b []byte) error) error {
	return guard.Faults(func() error { return fn(c.data) })
}

// Mapped returns the bytes, which can be a read-only mapping, without protection. It is for the packages of this
// module, which convert faults to errors at their borders: no other program can make a Token.
func (c Content) Mapped(guard.Token) []byte { return c.data }

// ReadAt implements io.ReaderAt. Bytes of a file are read from the file, so that
// its mapping takes no memory.
func (c Content) ReadAt(p []byte, off int64) (int, error) {
	// unguarded: the system reads files
	if off < 0 || off > c.Len() {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.Len()-off))
	if c.file == nil {
		copy(p, c.data[off:])
	} else if k, err := c.file.ReadAt(p[:n], c.off+off); k < n {
		return k, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Slice returns n bytes of c starting at off. Like slicing a []byte, it panics
// if the range is not inside c: check untrusted ranges first.
func (c Content) Slice(off, n int64) Content {
	c.data = c.data[off : off+n : off+n]
	c.off += off
	return c
}

// Space is a Sink that also writes at given offsets.
type Space interface {
	Sink
	// Reserve reserves n bytes at the end and returns their offset. Bytes that are not written
	// are zero.
	Reserve(n int64) (offset int64, err error)
	io.WriterAt
}

// Part is a Content and its offset in a file or in memory, in bytes.
type Part struct {
	Offset  int64
	Content Content
	ID      string // of the entry of a bundle; "" for other parts
}

// End returns the offset after the part.
func (p Part) End() int64 { return p.Offset + p.Content.Len() }

// Sink receives the output of a writer, in order.
type Sink interface {
	io.Writer
	// Append writes c, and copies it inside the kernel if possible.
	Append(c Content) error
	// Zeros writes n zero bytes.
	Zeros(n int64) error
}

// WriteParts writes parts, which must be in order and not overlap, with zeros between them and up
// to size. Empty parts can have any offset.
func WriteParts(sink Sink, parts []Part, size int64) error {
	at := int64(0) // unguarded: Append of the sink has a guard
	for _, p := range parts {
		if p.Content.Len() == 0 {
			continue
		}
		if p.Offset > at {
			if err := sink.Zeros(p.Offset - at); err != nil {
				return err
			}
		}
		if err := sink.Append(p.Content); err != nil {
			return err
		}
		at = p.End()
	}
	if size > at {
		return sink.Zeros(size - at)
	}
	return nil
}
