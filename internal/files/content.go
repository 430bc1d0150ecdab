// Package files implements file access for the engine: inputs that are mapped
// instead of read, and outputs that are written either completely or not at
// all.
//
// A request has one [Root], which resolves all of its paths, and one [Outputs], which
// holds its output files until Commit. Reading a mapped file that was truncated causes
// a fault: run all code that reads input bytes under [Guard], as budget.Budget.Each
// and budget.Ordered do.
package files

import (
	"errors"
	"io"
)

// Content is a sequence of bytes in memory or a range of an input file. Format
// writers pass Contents instead of bytes to a Sink, so that a range of a file
// can be copied inside the kernel.
//
// A Content is valid while its Input is open.
type Content struct {
	data []byte // the bytes; mapped if they are from a file
	in   *Input // the file of data; nil for memory
	off  int64  // offset of data in that file
}

// Memory returns b as a Content. b must not change while the Content is in use.
func Memory(b []byte) Content { return Content{data: b} }

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
	n := min(int64(len(p)), c.Len()-off)
	if c.in != nil && c.in.mapping != nil {
		k, err := c.in.file.ReadAt(p[:n], c.off+off)
		if int64(k) < n {
			if errors.Is(err, io.EOF) {
				err = c.in.lost(c.off + off + int64(k))
			} else {
				err = fileError(c.in.name, err)
			}
			return k, err
		}
	} else {
		copy(p, c.data[off:off+n])
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Slice returns n bytes of c starting at off. Like slicing a []byte, it panics
// if the range is not inside c: check untrusted ranges first.
func (c Content) Slice(off, n int64) Content {
	c.data = c.data[off : off+n : off+n]
	c.off += off
	return c
}

// Sink receives the output of a format writer, in order. Output implements it
// for files, Buffer for memory.
type Sink interface {
	io.Writer
	// Append writes c, and copies it inside the kernel if possible.
	Append(c Content) error
	// Zeros writes n zero bytes.
	Zeros(n int64) error
}
