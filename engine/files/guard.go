package files

import (
	"fmt"
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
	var err error
	mappings.Range(func(k, _ any) bool {
		m := k.(*mapping)
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		// The kernel maps whole pages, so a fault can be after the data.
		if addr < start || addr-start >= uintptr(len(m.data)+1<<16) {
			return true
		}
		err = m.in.lost(m.off + int64(addr-start))
		return addr-start >= uintptr(len(m.data))
	})
	return err
}

// lost returns the error for a byte at off that is no longer readable.
func (in *Input) lost(off int64) error {
	if fi, err := in.file.Stat(); err == nil && fi.Size() < in.Size() {
		return fmt.Errorf("'%s': the file was cut from %d to %d bytes while it was read", in.name, in.Size(), fi.Size())
	}
	return fmt.Errorf("'%s': byte 0x%x cannot be read: the device or the file system failed", in.name, off)
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
