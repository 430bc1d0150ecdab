package md5lanes

import "sync"

// blocks adds the next n blocks of each lane to its state. n must be positive.
//
//go:noescape
func blocks(state *[4][Lanes]uint32, data *[Lanes]*byte, n int)

// cpuid returns the registers BX and CX of the instruction CPUID.
func cpuid(leaf, part uint32) (b, c uint32)

// xgetbv returns the low half of the control register that states which registers the system saves.
func xgetbv() uint32

var (
	examine sync.Once
	found   bool
)

// parallel reports whether the processor and the system support AVX2. The first call examines the
// processor, which takes long in a virtual machine.
func parallel() bool {
	examine.Do(func() {
		const (
			osxsave, avx = 1 << 27, 1 << 28
			avx2         = 1 << 5
			saved        = 1<<1 | 1<<2 // XMM and YMM registers
		)
		if _, c := cpuid(1, 0); c&(osxsave|avx) == osxsave|avx && xgetbv()&saved == saved {
			b, _ := cpuid(7, 0)
			found = b&avx2 != 0
		}
	})
	return found
}
