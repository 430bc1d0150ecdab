//go:build !(amd64 || arm64) || purego

package longzstd

import "encoding/binary"

// load64 returns the 8 bytes of b at i.
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
