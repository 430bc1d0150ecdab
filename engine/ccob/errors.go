package ccob

import (
	"errors"
	"fmt"
)

// ErrMagic says that data is not a compressed bundle at all.
var ErrMagic = errors.New(`not a compressed bundle: no "CCOB" at byte 0x0`)

// Error is a fault of a compressed bundle.
type Error struct {
	Offset int64 // of the faulty bytes in the bundle
	// LLVM is what clang-offload-bundler 22 prints for such a bundle behind
	// "Failed to decompress input: ", empty when it does not notice the fault.
	LLVM string
	msg  string
	err  error
}

// Error returns the fault and its place in one line.
func (e *Error) Error() string { return fmt.Sprintf("byte 0x%x: %s", e.Offset, e.msg) }

// Unwrap returns the decoder's error, if it found the fault.
func (e *Error) Unwrap() error { return e.err }

func fault(off int64, llvm, format string, args ...any) *Error {
	return &Error{Offset: off, LLVM: llvm, msg: fmt.Sprintf(format, args...)}
}

// decompressError is a fault that LLVM's decompressor finds too; what is its word for it.
func decompressError(off int64, what string, format string, args ...any) *Error {
	return fault(off, "Could not decompress embedded file contents: "+what, format, args...)
}

// What libzstd and LLVM's zlib layer say.
const (
	zstdCorrupt   = "Data corruption detected"
	zstdNoFrame   = "Unknown frame descriptor"
	zstdParameter = "Unsupported frame parameter"
	zstdShort     = "Src size is incorrect"
	zstdLong      = "Destination buffer is too small"
	zstdChecksum  = "Restored data doesn't match checksum"
	zstdDict      = "Dictionary mismatch"
	zlibCorrupt   = "zlib error: Z_DATA_ERROR"
	zlibLong      = "zlib error: Z_BUF_ERROR"
)
