//go:build !linux

package main

// availableMemory returns the bytes of memory that the process can have, as far as is known.
func availableMemory() int64 { return 4 << 30 }
