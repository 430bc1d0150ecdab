package files

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"
)

// mapping is a range of an input that is mapped.
type mapping struct {
	data []byte
	in   *Input
	off  int64 // in the input
}

// mappings holds every current *mapping. It is searched only after a fault.
var mappings sync.Map

// unmapped holds the ranges that were unmapped last, because deferred calls
// close inputs before Guard recovers from a fault on one of them.
var unmapped struct {
	mu   sync.Mutex
	list []formerMapping // a ring
	next int             // index of the oldest, if the ring is full
}

// mostUnmapped is the length of the ring: larger than the number of inputs that
// one call has open.
const mostUnmapped = 4096

// formerMapping is a range of memory in which an input was mapped.
type formerMapping struct {
	start, length uintptr
	name, path    string // of the file: the name in messages, and the path
	size          int64  // of the file when it was opened, in bytes
}

// unmapping removes m from mappings. Call it before the range is unmapped.
func (m *mapping) unmapping() {
	mappings.Delete(m)
	if m.in.file == nil {
		return
	}
	f := formerMapping{
		start: uintptr(unsafe.Pointer(unsafe.SliceData(m.data))), length: uintptr(len(m.data)),
		name: m.in.name, path: m.in.file.Name(), size: m.in.state.size,
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

// formerError returns the error for a fault on a closed input, or nil if no
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

// Guard runs fn and converts a fault on a mapped input to an error that names
// the input. A fault is a read after the end of a file that was truncated, or a
// disk error. Other panics are not recovered. Guard covers only the calling
// goroutine.
func Guard(fn func() error) (err error) {
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

// faultError returns the error for a panic caused by a mapped input, nil for
// any other panic.
func faultError(v any) error {
	fault, ok := v.(interface{ Addr() uintptr })
	if !ok {
		return nil
	}
	addr := fault.Addr()
	var err, unreadable error
	mappings.Range(func(k, _ any) bool {
		m := k.(*mapping)
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if addr < start || addr-start >= uintptr(len(m.data))+faultRoom {
			return true
		}
		if err = m.in.cut(); err == nil {
			unreadable = m.in.unreadable(m.off + int64(addr-start))
		}
		return addr-start >= uintptr(len(m.data))
	})
	// An input that is mapped now can have the place of the one with the fault, which was
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
	return reject(name, "the file shrank from %d to %d bytes while it was read", from, to)
}

// lost returns the error for a byte at off that is no longer readable.
func (in *Input) lost(off int64) error {
	if err := in.cut(); err != nil {
		return err
	}
	return in.unreadable(off)
}

// cut returns an error if the file has become shorter.
func (in *Input) cut() error {
	if fi, err := in.file.Stat(); err == nil && fi.Size() < in.Size() {
		return cutError(in.name, in.Size(), fi.Size())
	}
	return nil
}

// unreadable returns the error for a byte that cannot be read although the file has it.
func (in *Input) unreadable(off int64) error {
	return reject(in.name, "cannot read byte 0x%x: the device or the file system failed", off)
}

// PanicError is the recovered panic of a unit of work. Other requests of the
// process continue.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine that panicked
}

// Error returns the panic in one line.
func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Contain runs fn like Guard and converts every panic to an error, which is a
// *PanicError unless the panic is a fault on an input.
func Contain(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return Guard(fn)
}
