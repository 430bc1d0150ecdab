//go:build !amd64

package md5lanes

// parallel reports that there is no code for this processor.
func parallel() bool { return false }

// blocks is not called.
func blocks(*[4][Lanes]uint32, *[Lanes]*byte, int) { panic("md5lanes: no code for this processor") }
