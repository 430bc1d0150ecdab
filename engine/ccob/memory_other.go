//go:build !linux

package ccob

import "sync/atomic"

// newMemory returns n zero bytes and a function that gives them back.
func newMemory(n int64) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }

func largePages([]byte, int64) {}

func getReady([]byte, int64, *atomic.Bool) {}
