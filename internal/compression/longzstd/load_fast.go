//go:build (amd64 || arm64) && !purego

package longzstd

import "unsafe"

// load64 returns the 8 bytes of b at i, which must be there: nothing checks it. The checks would
// take a fifth of the time for finding matches. Tests run with them, too (-tags purego).
func load64(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}
