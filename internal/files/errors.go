package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Error reports a failure of the operating system on one file of a request. It
// wraps its cause: errors.Is(err, fs.ErrNotExist) works.
type Error struct {
	Name string // the file as the request named it
	Err  error  // the cause; a syscall.Errno if the system reported one
}

// Error returns the message in the format of LLVM's tools: 'x': No such file or
// directory.
func (e *Error) Error() string { return "'" + e.Name + "': " + e.Reason() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Reason returns only the cause, in the words of strerror: No such file or
// directory.
func (e *Error) Reason() string {
	s := e.Err.Error()
	var errno syscall.Errno
	if errors.As(e.Err, &errno) {
		s = errno.Error()
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// fileError returns the error for a failed operation on a file. It removes the
// operation and path of package os from the error, since the path may be a
// temporary name.
func fileError(name string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	var se *os.SyscallError
	var own *Error
	var lost *inputLost
	switch {
	case errors.As(err, &own):
		return err
	case errors.As(err, &lost):
		return lost.error
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	case errors.As(err, &se):
		err = se.Err
	}
	return &Error{Name: name, Err: err}
}

// inputLost marks an error of an input that occurred while writing an output.
type inputLost struct{ error }
