package md5lanes

import "sync"

// blocks adds the next n blocks of each lane to its state. n must be positive.
func blocks(state *[4][Lanes]uint32, data *[Lanes]*byte, n int) {
	if ternary {
		blocksAVX512(state, data, n)
	} else {
		blocksAVX2(state, data, n)
	}
}

// blocksAVX512 uses instructions of AVX-512 for registers of AVX2, because larger registers slow down
// some processors. It takes two thirds of the time of blocksAVX2.
//
//go:noescape
func blocksAVX512(state *[4][Lanes]uint32, data *[Lanes]*byte, n int)

//go:noescape
func blocksAVX2(state *[4][Lanes]uint32, data *[Lanes]*byte, n int)

// cpuid returns the registers BX and CX of the instruction CPUID.
func cpuid(leaf, part uint32) (b, c uint32)

// xgetbv returns the low half of the control register that states which registers the system saves.
func xgetbv() uint32

var (
	examine sync.Once
	found   bool
)

// parallel reports whether the processor and the system support AVX2, and sets ternary. The first call
// examines the processor, which takes long in a virtual machine.
func parallel() bool {
	examine.Do(func() {
		const (
			osxsave, avx    = 1 << 27, 1 << 28
			avx2            = 1 << 5
			avx512, shorter = 1 << 16, 1 << 31 // for registers of 64 bytes, and of 32 and 16
			saved           = 1<<1 | 1<<2      // XMM and YMM registers
			saved512        = saved | 1<<5 | 1<<6 | 1<<7
		)
		if _, c := cpuid(1, 0); c&(osxsave|avx) != osxsave|avx || xgetbv()&saved != saved {
			return
		}
		b, _ := cpuid(7, 0)
		found = b&avx2 != 0
		ternary = found && b&avx512 != 0 && b&shorter != 0 && xgetbv()&saved512 == saved512
	})
	return found
}
