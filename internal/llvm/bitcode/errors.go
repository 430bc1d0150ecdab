package bitcode

import "fmt"

// Error reports a fault of a bitcode file.
type Error struct {
	Offset int64 // of the faulty bytes in the file
	reason string
}

// Error returns the fault and its place in one line.
func (e *Error) Error() string { return e.reason }

func fault(offset int64, format string, args ...any) *Error {
	return &Error{Offset: offset, reason: fmt.Sprintf(format, args...)}
}
