package files

import (
	"errors"
	"fmt"
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
	in   string // the thin archive that names the file, or ""
}

// Error returns the message in the format of LLVM's tools: 'x': No such file or
// directory.
func (e *Error) Error() string { return "'" + e.Name + "': " + e.Reason() }

// Plain returns the message in the format of the verbs: x: no such file or directory.
func (e *Error) Plain() string {
	reason := e.Reason()
	if _, ok := errors.AsType[syscall.Errno](e.Err); ok {
		r, n := utf8.DecodeRuneInString(reason)
		reason = string(unicode.ToLower(r)) + reason[n:]
	}
	name := e.Name
	if name == "" {
		name = `""`
	}
	if e.in != "" {
		name = e.in + ": member " + name
	}
	return name + ": " + reason
}

// SetArchive sets the name of the thin archive that names the file. Only Plain has it.
func (e *Error) SetArchive(name string) { e.in = name }

// InArchive reports whether a thin archive names the file.
func (e *Error) InArchive() bool { return e.in != "" }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A rejection is an error of a file that is not a failure of the operating system.
type rejection struct {
	name, reason string
}

// reject returns a rejection.
func reject(name, format string, args ...any) error {
	return &rejection{name, fmt.Sprintf(format, args...)}
}

// Error returns the message in the format of Error.
func (e *rejection) Error() string { return "'" + e.name + "': " + e.reason }

// Plain returns the message in the format of the verbs.
func (e *rejection) Plain() string { return e.name + ": " + e.reason }

// SameFileError reports an output that is the same file as an input or as another output.
type SameFileError struct {
	Output string
	Other  string // the input, or the other output
	Input  bool   // whether Other is an input
}

// Error returns the message in the format of Error.
func (e *SameFileError) Error() string {
	if e.Input {
		return fmt.Sprintf("'%s': is the same file as the input '%s': writing it would destroy the input", e.Output, e.Other)
	}
	return fmt.Sprintf("'%s': is the same file as the output '%s': each output must be a separate file", e.Output, e.Other)
}

// Plain returns the message in the format of the verbs.
func (e *SameFileError) Plain() string {
	switch {
	case e.Input && e.Output == e.Other:
		return fmt.Sprintf("output %s is the input; choose another name", e.Output)
	case e.Input:
		return fmt.Sprintf("output %s is the input %s; choose another name", e.Output, e.Other)
	case e.Output == e.Other:
		return fmt.Sprintf("two outputs are the same file, %s; give each its own name", e.Output)
	}
	return fmt.Sprintf("outputs %s and %s are the same file; give each its own name", e.Other, e.Output)
}

// Reason returns only the cause, in the words of strerror: No such file or
// directory.
func (e *Error) Reason() string {
	s := e.Err.Error()
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		s = errno.Error()
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// fileError returns the error for a failed operation on a file. It removes the
// operation and path of package os from the error, since the path may be a
// temporary name.
func fileError(name string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if lost, ok := errors.AsType[*inputLost](err); ok {
		return lost.error
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
	}
	return &Error{Name: name, Err: err}
}

// inputLost marks an error of an input that occurred while writing an output.
type inputLost struct{ error }
