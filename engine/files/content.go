// Package files gives the engine its view of the file system: inputs that are
// mapped instead of read, outputs that appear complete or not at all, and the
// budgets of cores and memory that all requests of a process share.
//
// A request has one [Root], which resolves every path it names, and one
// [Outputs], which holds what it writes until Commit. A mapped file that
// somebody cuts short faults when it is read: run everything that touches
// input bytes below [Guard], as budget.Budget.Each and budget.Ordered do on their own.
package files

import (
	"errors"
	"io"
)

// Content is a run of bytes that exists somewhere: in memory, or as a range of
// an input file. Format writers hand Contents to a Sink instead of bytes, so
// that a range of a file can be copied inside the kernel.
//
// A Content stays valid as long as the Input it came from is open.
type Content struct {
	data []byte // the bytes, mapped when they come from a file
	in   *Input // the file behind data, nil for memory
	off  int64  // where data starts in that file
}

// Memory returns b as a Content. b must not change while the Content is in use.
func Memory(b []byte) Content { return Content{data: b} }

// Len returns the number of bytes.
func (c Content) Len() int64 { return int64(len(c.data)) }

// Bytes returns the bytes themselves. They may be a read-only mapping: writing
// to them is a fault.
func (c Content) Bytes() []byte { return c.data }

// ReadAt copies len(p) bytes of c from off on, as io.ReaderAt does. Bytes of a file
// are read from the file, so that its mapping takes no memory.
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
// when the range does not lie inside c: check untrusted ranges first.
func (c Content) Slice(off, n int64) Content {
	c.data = c.data[off : off+n : off+n]
	c.off += off
	return c
}

// Sink takes what a format writer produces, in order. Output implements it for
// files, Buffer for memory.
type Sink interface {
	io.Writer
	// Append writes c, copying inside the kernel where it can.
	Append(c Content) error
	// Zeros writes n zero bytes.
	Zeros(n int64) error
}
