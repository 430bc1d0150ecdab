// Package guard converts faults on mapped files to errors. Reading after the end of a mapped file that
// was truncated is a fault, which ends the process unless the goroutine runs in [Faults] or [Contain].
//
// Code that maps a file registers the range with [Map], so that the error can name the file.
package guard

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"
)

// File is an open file of which ranges are mapped.
type File struct {
	*os.File
	Label string // the name in messages
	Size  int64  // of the file when it was opened, in bytes
}

// Mapping is a range of a file that is mapped.
type Mapping struct {
	data []byte
	file *File
	off  int64 // in the file
}

// Map registers data, a mapping of a file from offset off, until Forget.
func Map(data []byte, file *File, off int64) *Mapping {
	m := &Mapping{data, file, off}
	mappings.Store(m, struct{}{})
	return m
}

// Bytes returns the mapped bytes.
func (m *Mapping) Bytes() []byte { return m.data }

// mappings holds every current *Mapping. It is searched only after a fault.
var mappings sync.Map

// unmapped holds the ranges that were unmapped last, because deferred calls
// close files before Faults recovers from a fault on one of them.
var unmapped struct {
	mu   sync.Mutex
	list []formerMapping // a ring
	next int             // index of the oldest, if the ring is full
}

// mostUnmapped is the length of the ring: larger than the number of files that
// one call has open.
const mostUnmapped = 4096

// formerMapping is a range of memory in which a file was mapped.
type formerMapping struct {
	start, length uintptr
	name, path    string // of the file: the name in messages, and the path
	size          int64  // of the file when it was opened, in bytes
}

// Forget ends the registration. Call it before the range is unmapped.
func (m *Mapping) Forget() {
	mappings.Delete(m)
	f := formerMapping{
		start: uintptr(unsafe.Pointer(unsafe.SliceData(m.data))), length: uintptr(len(m.data)),
		name: m.file.Label, path: m.file.Name(), size: m.file.Size,
	}
	unmapped.mu.Lock()
	defer unmapped.mu.Unlock()
	if len(unmapped.list) < mostUnmapped {
		unmapped.list = append(unmapped.list, f)
		return
	}
	unmapped.list[unmapped.next] = f
	unmapped.next = (unmapped.next + 1) % mostUnmapped
}

// formerError returns the error for a fault on a closed file, or nil if no
// file that was mapped at addr has become shorter.
func formerError(addr uintptr) error {
	unmapped.mu.Lock()
	defer unmapped.mu.Unlock()
	for i := range unmapped.list {
		f := &unmapped.list[i]
		if addr < f.start || addr-f.start >= f.length+faultRoom {
			continue
		}
		if fi, err := os.Stat(f.path); err == nil && fi.Size() < f.size {
			return cutError(f.name, f.size, fi.Size())
		}
	}
	return nil
}

// faultRoom is the largest distance of a fault from the end of the data of a
// mapping: the kernel maps whole pages.
const faultRoom = 1 << 16

// Faults runs fn and converts a fault on a mapped file to an error that names
// the file. A fault is a read after the end of a file that was truncated, or a
// disk error. Other panics are not recovered. Faults covers only the calling
// goroutine.
func Faults(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			if err = faultError(v); err == nil {
				panic(v)
			}
		}
	}()
	return fn()
}

// Token is a parameter of methods of public types that return mapped bytes. Only packages that can import this
// one can call them.
type Token struct{}

// Inside is the argument of code that reads the bytes inside [Faults] or [Contain].
var Inside Token

// Into is [Faults] for the rest of the function that calls it, whose error is *err:
//
//	defer guard.Into(&err)()
//
// Exported functions that read contents begin with it, because their callers cannot import this package.
func Into(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if v := recover(); v != nil {
			if *err = faultError(v); *err == nil {
				panic(v)
			}
		}
	}
}

// faultError returns the error for a panic caused by a mapped file, nil for
// any other panic.
func faultError(v any) error {
	fault, ok := v.(interface{ Addr() uintptr })
	if !ok {
		return nil
	}
	addr := fault.Addr()
	var err, unreadable error
	mappings.Range(func(k, _ any) bool {
		m := k.(*Mapping)
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if addr < start || addr-start >= uintptr(len(m.data))+faultRoom {
			return true
		}
		if err = m.file.shrunk(); err == nil {
			unreadable = m.file.unreadable(m.off + int64(addr-start))
		}
		return addr-start >= uintptr(len(m.data))
	})
	// A file that is mapped now can have the place of the one with the fault, which was
	// closed meanwhile.
	if err == nil {
		err = formerError(addr)
	}
	if err == nil {
		err = unreadable
	}
	return err
}

func cutError(name string, from, to int64) error {
	return &LostError{name, fmt.Sprintf("the file shrank from %d to %d bytes while it was read", from, to)}
}

// LostError reports bytes of a mapped file that are no longer readable.
type LostError struct {
	Name, reason string
}

// Error returns the message in the words of LLVM's tools, with the name in quotes.
func (e *LostError) Error() string { return "'" + e.Name + "': " + e.reason }

// Plain returns the message in the format of the verbs.
func (e *LostError) Plain() string { return e.Name + ": " + e.reason }

// Lost returns the error for a byte at off that is no longer readable.
func (f *File) Lost(off int64) error {
	if err := f.shrunk(); err != nil {
		return err
	}
	return f.unreadable(off)
}

// shrunk returns an error if the file has become shorter.
func (f *File) shrunk() error {
	if fi, err := f.Stat(); err == nil && fi.Size() < f.Size {
		return cutError(f.Label, f.Size, fi.Size())
	}
	return nil
}

// unreadable returns the error for a byte that cannot be read although the file has it.
func (f *File) unreadable(off int64) error {
	return &LostError{f.Label, fmt.Sprintf("cannot read byte 0x%x: the device or the file system failed", off)}
}

// PanicError is the recovered panic of a unit of work. Other requests of the
// process continue.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine that panicked
}

// Error returns the panic in one line.
func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Contain runs fn like Faults and converts every panic to an error, which is a
// *PanicError unless the panic is a fault on a mapped file.
func Contain(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return Faults(fn)
}
