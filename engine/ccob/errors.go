package ccob

import (
	"errors"
	"fmt"
)

// ErrMagic reports data that is not a compressed bundle.
var ErrMagic = errors.New(`not a compressed bundle: no "CCOB" at byte 0x0`)

// Fault is a kind of error in a compressed bundle.
type Fault int

// The faults.
const (
	Other          Fault = iota // found only by the check of sizes and hashes
	HeaderCut                   // data that ends inside the header
	UnknownMethod               // an unknown compression method
	ZstdCorrupt                 // zstd: damaged data
	ZstdNoFrame                 // zstd: no frame where one is expected
	ZstdParameter               // zstd: a frame with unsupported parameters
	ZstdCut                     // zstd: data that ends inside a frame
	ZstdTooLong                 // zstd: more data than the header states
	ZstdChecksum                // zstd: a frame whose checksum is wrong
	ZstdDictionary              // zstd: a frame that requires a dictionary
	ZlibCorrupt                 // zlib: damaged data
	ZlibTooLong                 // zlib: more data than the header states
)

// Error reports a fault of a compressed bundle.
type Error struct {
	Offset int64 // of the faulty bytes in the bundle
	Fault  Fault
	msg    string
	err    error
}

// Error returns the fault and its place in one line.
func (e *Error) Error() string { return fmt.Sprintf("byte 0x%x: %s", e.Offset, e.msg) }

// Unwrap returns the decoder's error, if the decoder found the fault.
func (e *Error) Unwrap() error { return e.err }

func fault(off int64, code Fault, format string, args ...any) *Error {
	return &Error{Offset: off, Fault: code, msg: fmt.Sprintf(format, args...)}
}
