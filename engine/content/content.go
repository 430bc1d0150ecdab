// Package content has the bytes that formats are read from and written to: a [Content] is bytes in
// memory or a range of an open file, and a [Sink] receives them. A writer of a format appends
// Contents to a Sink instead of copying them, so that the operating system can copy ranges of files.
//
// To write a format to any writer, pass &WriterSink{W: w}; to write it to memory, a [Buffer].
package content

import "io"

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
// read-only mapping of the file. Both must stay valid while the Content is in use.
func Of(file io.ReaderAt, b []byte, off int64) Content { return Content{b, file, off} }

// File returns the file of the Content and the offset in it, or nil for memory.
func (c Content) File() (file io.ReaderAt, off int64) { return c.file, c.off }

// Len returns the number of bytes.
func (c Content) Len() int64 { return int64(len(c.data)) }

// Bytes returns the bytes. They may be a read-only mapping, so they must not be
// modified.
func (c Content) Bytes() []byte { return c.data }

// ReadAt implements io.ReaderAt. Bytes of a file are read from the file, so that
// its mapping takes no memory.
func (c Content) ReadAt(p []byte, off int64) (int, error) {
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
	at := int64(0)
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
