// Package stack grows the stack of the main goroutine once, when the process starts. The runtime begins
// with 2 KiB and doubles them: each time, it copies the stack and reads the tables of all functions on
// it, which takes longer the more functions have been called. A program imports it for this effect. It
// imports nothing, so that it is among the first packages that are initialised.
package stack

// usual is the size of the stack that small calls need, in bytes.
const usual = 24 << 10

func init() { grow(0) }

// grow has a frame of the usual size if n is 0, too, but touches it only for other n.
//
//go:noinline
func grow(n int) byte {
	if n == 0 {
		return 0
	}
	var frame [usual]byte
	for i := range frame {
		frame[i] = byte(n >> (i & 7))
	}
	return frame[n] + grow(n-1)
}
