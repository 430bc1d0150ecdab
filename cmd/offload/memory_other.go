//go:build !linux

package main

// availableMemory returns the memory that the process can use, in bytes, as far as it is known.
func availableMemory() (available int64, space bool) { return 4 << 30 }
