//go:build !purego

#include "textflag.h"

// The indexes are those of search: a change of a hash or of the size of a table must change them here.
#define PREFETCH(n) \
	MOVQ  n(SI), AX               \
	MOVQ  AX, BX                  \
	IMULQ R8, AX                  \
	IMULQ R9, BX                  \
	SHRQ  $44, AX                 \
	SHRQ  $47, BX                 \
	ANDQ  R10, AX                 \
	ANDQ  R11, BX                 \
	PREFETCHT0 (DI)(AX*4)         \
	PREFETCHT0 (DX)(BX*4)

// func prefetchCells(long, short *uint32, longMask, shortMask uint64, next *byte)
TEXT ·prefetchCells(SB), NOSPLIT, $0-40
	MOVQ long+0(FP), DI
	MOVQ short+8(FP), DX
	MOVQ longMask+16(FP), R10
	MOVQ shortMask+24(FP), R11
	MOVQ next+32(FP), SI
	MOVQ $0xCF1BBCDCB7A56463, R8 // prime8
	MOVQ $0xCF1BBCDCBB000000, R9 // prime5 << 24
	PREFETCH(0)
	PREFETCH(1)
	PREFETCH(2)
	PREFETCH(3)
	PREFETCH(4)
	PREFETCH(5)
	PREFETCH(6)
	PREFETCH(7)
	PREFETCH(8)
	PREFETCH(9)
	PREFETCH(10)
	PREFETCH(11)
	RET
