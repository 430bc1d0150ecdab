package ar

import "fmt"

// Fault is a kind of error in an archive.
type Fault int

// The faults.
const (
	NoArchive         Fault = iota + 1
	BigArchive              // an AIX big archive
	SpecialName             // a special member where none is allowed
	HeaderCut               // the archive ends in a member header
	BadTerminator           // of a member header
	SizeDigits              // a size that is not a number
	SizePastEnd             // a member that exceeds the archive
	LeadingSpace            // in a name
	NameLengthDigits        // the length of a BSD name is not a number
	NameLengthPastEnd       // a BSD name that exceeds its member
	NameOffsetDigits        // the offset of a long name is not a number
	NameOffsetPastEnd       // it exceeds the table of long names
	NameUnterminated        // a long name without an end
)

// FormatError reports where and how an archive is malformed.
type FormatError struct {
	Offset int64 // of the header of the faulty member
	Fault  Fault
	Reason string // what was found and what was expected
	// Found is the faulty text, and Number the faulty number, if any.
	Found  string
	Number uint64
	// Member is the name of the faulty member, if Named is set.
	Member string
	Named  bool
}

// Error returns the fault and its place in one line.
func (e *FormatError) Error() string {
	return fmt.Sprintf("archive member at byte %#x: %s", e.Offset, e.Reason)
}

func malformed(fault Fault, off int, format string, args ...any) *FormatError {
	return &FormatError{Offset: int64(off), Fault: fault, Reason: fmt.Sprintf(format, args...)}
}

func (e *FormatError) found(text string) *FormatError {
	e.Found = text
	return e
}

func (e *FormatError) number(n uint64) *FormatError {
	e.Number = n
	return e
}
