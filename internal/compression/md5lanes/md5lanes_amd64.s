#include "textflag.h"

// Registers: Y0 to Y3 are the state a, b, c and d of lanes 0 to 7, Y4 to Y7 that of lanes 8 to 15.
// Y8 to Y11 are temporary, two for each half of the lanes. Without AVX-512, Y12 is the constant of the step
// and Y13 has all bits set. BX is the address of the words of the block of all lanes: word i of lanes 0 to 7 is
// at 64*i, that of lanes 8 to 15 at 64*i+32. CX is the address of the constants.
//
// Both halves are computed in turn, because a step depends on the step before: the processor computes
// one half while it waits for the other.

// ADDWORD adds constant k and a word of the block to a and e.
#define ADDWORD(a, e, word, k) \
	VPBROADCASTD (4*(k))(CX), Y12; \
	VPADDD 64*word(BX), Y12, Y8; \
	VPADDD 64*word+32(BX), Y12, Y10; \
	VPADDD Y8, a, a; \
	VPADDD Y10, e, e

// ROTATE adds Y9 to a, rotates a to the left by s bits and adds b; the same with Y11, e and f.
#define ROTATE(a, b, e, f, s) \
	VPADDD Y9, a, a; \
	VPADDD Y11, e, e; \
	VPSLLD $s, a, Y8; \
	VPSLLD $s, e, Y10; \
	VPSRLD $(32-s), a, a; \
	VPSRLD $(32-s), e, e; \
	VPOR Y8, a, a; \
	VPOR Y10, e, e; \
	VPADDD b, a, a; \
	VPADDD f, e, e

// STEP1 is a step of the first round, with the function d ^ (b & (c ^ d)).
#define STEP1(a, b, c, d, e, f, g, h, word, k, s) \
	ADDWORD(a, e, word, k); \
	VPXOR c, d, Y9; \
	VPXOR g, h, Y11; \
	VPAND b, Y9, Y9; \
	VPAND f, Y11, Y11; \
	VPXOR d, Y9, Y9; \
	VPXOR h, Y11, Y11; \
	ROTATE(a, b, e, f, s)

// STEP2 is a step of the second round, with the function (^d & c) + (d & b), whose first part does
// not depend on the step before.
#define STEP2(a, b, c, d, e, f, g, h, word, k, s) \
	ADDWORD(a, e, word, k); \
	VPANDN c, d, Y8; \
	VPANDN g, h, Y10; \
	VPADDD Y8, a, a; \
	VPADDD Y10, e, e; \
	VPAND b, d, Y9; \
	VPAND f, h, Y11; \
	ROTATE(a, b, e, f, s)

// STEP3 is a step of the third round, with the function b ^ (c ^ d).
#define STEP3(a, b, c, d, e, f, g, h, word, k, s) \
	ADDWORD(a, e, word, k); \
	VPXOR c, d, Y9; \
	VPXOR g, h, Y11; \
	VPXOR b, Y9, Y9; \
	VPXOR f, Y11, Y11; \
	ROTATE(a, b, e, f, s)

// STEP4 is a step of the fourth round, with the function c ^ (b | ^d).
#define STEP4(a, b, c, d, e, f, g, h, word, k, s) \
	ADDWORD(a, e, word, k); \
	VPXOR d, Y13, Y9; \
	VPXOR h, Y13, Y11; \
	VPOR b, Y9, Y9; \
	VPOR f, Y11, Y11; \
	VPXOR c, Y9, Y9; \
	VPXOR g, Y11, Y11; \
	ROTATE(a, b, e, f, s)

// STEP is a step of any round on a processor with AVX-512. table has the values of the round's function: bit
// 4*d+2*c+b is the value for these bits.
#define STEP(table, a, b, c, d, e, f, g, h, word, k, s) \
	VPADDD.BCST (4*(k))(CX), a, a; \
	VPADDD.BCST (4*(k))(CX), e, e; \
	VPADDD 64*word(BX), a, a; \
	VPADDD 64*word+32(BX), e, e; \
	VMOVDQA d, Y9; \
	VMOVDQA h, Y11; \
	VPTERNLOGD $table, b, c, Y9; \
	VPTERNLOGD $table, f, g, Y11; \
	VPADDD Y9, a, a; \
	VPADDD Y11, e, e; \
	VPROLD $s, a, a; \
	VPROLD $s, e, e; \
	VPADDD b, a, a; \
	VPADDD f, e, e

#define TABLE1(a, b, c, d, e, f, g, h, word, k, s) STEP(0xd8, a, b, c, d, e, f, g, h, word, k, s)
#define TABLE2(a, b, c, d, e, f, g, h, word, k, s) STEP(0xac, a, b, c, d, e, f, g, h, word, k, s)
#define TABLE3(a, b, c, d, e, f, g, h, word, k, s) STEP(0x96, a, b, c, d, e, f, g, h, word, k, s)
#define TABLE4(a, b, c, d, e, f, g, h, word, k, s) STEP(0x63, a, b, c, d, e, f, g, h, word, k, s)

// STEPS does four steps, after which each part of the state is in its register again.
#define STEPS(STEP, w0, w1, w2, w3, k, s0, s1, s2, s3) \
	STEP(Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, w0, k, s0); \
	STEP(Y3, Y0, Y1, Y2, Y7, Y4, Y5, Y6, w1, k+1, s1); \
	STEP(Y2, Y3, Y0, Y1, Y6, Y7, Y4, Y5, w2, k+2, s2); \
	STEP(Y1, Y2, Y3, Y0, Y5, Y6, Y7, Y4, w3, k+3, s3)

// ADDRESSES loads the addresses of eight lanes from DI+at to R8 to R13, AX and DX.
#define ADDRESSES(at) \
	MOVQ at+0(DI), R8; \
	MOVQ at+8(DI), R9; \
	MOVQ at+16(DI), R10; \
	MOVQ at+24(DI), R11; \
	MOVQ at+32(DI), R12; \
	MOVQ at+40(DI), R13; \
	MOVQ at+48(DI), AX; \
	MOVQ at+56(DI), DX

// WORDS stores words i to i+3 of the block of eight lanes at BX+at: it transposes the lanes of four
// words. SI is the offset of the block.
#define WORDS(i, at) \
	VMOVDQU 4*i(R8)(SI*1), X0; \
	VMOVDQU 4*i(R9)(SI*1), X1; \
	VMOVDQU 4*i(R10)(SI*1), X2; \
	VMOVDQU 4*i(R11)(SI*1), X3; \
	VINSERTI128 $1, 4*i(R12)(SI*1), Y0, Y0; \
	VINSERTI128 $1, 4*i(R13)(SI*1), Y1, Y1; \
	VINSERTI128 $1, 4*i(AX)(SI*1), Y2, Y2; \
	VINSERTI128 $1, 4*i(DX)(SI*1), Y3, Y3; \
	VPUNPCKLDQ Y1, Y0, Y4; \
	VPUNPCKHDQ Y1, Y0, Y5; \
	VPUNPCKLDQ Y3, Y2, Y6; \
	VPUNPCKHDQ Y3, Y2, Y7; \
	VPUNPCKLQDQ Y6, Y4, Y0; \
	VPUNPCKHQDQ Y6, Y4, Y1; \
	VPUNPCKLQDQ Y7, Y5, Y2; \
	VPUNPCKHQDQ Y7, Y5, Y3; \
	VMOVDQU Y0, 64*i+at(BX); \
	VMOVDQU Y1, 64*i+64+at(BX); \
	VMOVDQU Y2, 64*i+128+at(BX); \
	VMOVDQU Y3, 64*i+192+at(BX)

// constants are the numbers that the steps add, floor(abs(sin(step+1)) * 2**32), two in each line.
DATA constants<>+0(SB)/8, $0xe8c7b756d76aa478
DATA constants<>+8(SB)/8, $0xc1bdceee242070db
DATA constants<>+16(SB)/8, $0x4787c62af57c0faf
DATA constants<>+24(SB)/8, $0xfd469501a8304613
DATA constants<>+32(SB)/8, $0x8b44f7af698098d8
DATA constants<>+40(SB)/8, $0x895cd7beffff5bb1
DATA constants<>+48(SB)/8, $0xfd9871936b901122
DATA constants<>+56(SB)/8, $0x49b40821a679438e
DATA constants<>+64(SB)/8, $0xc040b340f61e2562
DATA constants<>+72(SB)/8, $0xe9b6c7aa265e5a51
DATA constants<>+80(SB)/8, $0x02441453d62f105d
DATA constants<>+88(SB)/8, $0xe7d3fbc8d8a1e681
DATA constants<>+96(SB)/8, $0xc33707d621e1cde6
DATA constants<>+104(SB)/8, $0x455a14edf4d50d87
DATA constants<>+112(SB)/8, $0xfcefa3f8a9e3e905
DATA constants<>+120(SB)/8, $0x8d2a4c8a676f02d9
DATA constants<>+128(SB)/8, $0x8771f681fffa3942
DATA constants<>+136(SB)/8, $0xfde5380c6d9d6122
DATA constants<>+144(SB)/8, $0x4bdecfa9a4beea44
DATA constants<>+152(SB)/8, $0xbebfbc70f6bb4b60
DATA constants<>+160(SB)/8, $0xeaa127fa289b7ec6
DATA constants<>+168(SB)/8, $0x04881d05d4ef3085
DATA constants<>+176(SB)/8, $0xe6db99e5d9d4d039
DATA constants<>+184(SB)/8, $0xc4ac56651fa27cf8
DATA constants<>+192(SB)/8, $0x432aff97f4292244
DATA constants<>+200(SB)/8, $0xfc93a039ab9423a7
DATA constants<>+208(SB)/8, $0x8f0ccc92655b59c3
DATA constants<>+216(SB)/8, $0x85845dd1ffeff47d
DATA constants<>+224(SB)/8, $0xfe2ce6e06fa87e4f
DATA constants<>+232(SB)/8, $0x4e0811a1a3014314
DATA constants<>+240(SB)/8, $0xbd3af235f7537e82
DATA constants<>+248(SB)/8, $0xeb86d3912ad7d2bb
GLOBL constants<>(SB), RODATA|NOPTR, $256

// START sets the registers that stay the same, or begin with the first block.
#define START \
	MOVQ state+0(FP), R15; \
	MOVQ data+8(FP), DI; \
	LEAQ 0(SP), BX; \
	LEAQ constants<>(SB), CX; \
	XORL SI, SI

// BLOCK adds the block at offset SI to the state, with a macro for the steps of each round.
#define BLOCK(F1, F2, F3, F4) \
	ADDRESSES(0); \
	WORDS(0, 0); \
	WORDS(4, 0); \
	WORDS(8, 0); \
	WORDS(12, 0); \
	ADDRESSES(64); \
	WORDS(0, 32); \
	WORDS(4, 32); \
	WORDS(8, 32); \
	WORDS(12, 32); \
	VMOVDQU 0(R15), Y0; \
	VMOVDQU 64(R15), Y1; \
	VMOVDQU 128(R15), Y2; \
	VMOVDQU 192(R15), Y3; \
	VMOVDQU 32(R15), Y4; \
	VMOVDQU 96(R15), Y5; \
	VMOVDQU 160(R15), Y6; \
	VMOVDQU 224(R15), Y7; \
	STEPS(F1, 0, 1, 2, 3, 0, 7, 12, 17, 22); \
	STEPS(F1, 4, 5, 6, 7, 4, 7, 12, 17, 22); \
	STEPS(F1, 8, 9, 10, 11, 8, 7, 12, 17, 22); \
	STEPS(F1, 12, 13, 14, 15, 12, 7, 12, 17, 22); \
	STEPS(F2, 1, 6, 11, 0, 16, 5, 9, 14, 20); \
	STEPS(F2, 5, 10, 15, 4, 20, 5, 9, 14, 20); \
	STEPS(F2, 9, 14, 3, 8, 24, 5, 9, 14, 20); \
	STEPS(F2, 13, 2, 7, 12, 28, 5, 9, 14, 20); \
	STEPS(F3, 5, 8, 11, 14, 32, 4, 11, 16, 23); \
	STEPS(F3, 1, 4, 7, 10, 36, 4, 11, 16, 23); \
	STEPS(F3, 13, 0, 3, 6, 40, 4, 11, 16, 23); \
	STEPS(F3, 9, 12, 15, 2, 44, 4, 11, 16, 23); \
	STEPS(F4, 0, 7, 14, 5, 48, 6, 10, 15, 21); \
	STEPS(F4, 12, 3, 10, 1, 52, 6, 10, 15, 21); \
	STEPS(F4, 8, 15, 6, 13, 56, 6, 10, 15, 21); \
	STEPS(F4, 4, 11, 2, 9, 60, 6, 10, 15, 21); \
	VPADDD 0(R15), Y0, Y0; \
	VPADDD 64(R15), Y1, Y1; \
	VPADDD 128(R15), Y2, Y2; \
	VPADDD 192(R15), Y3, Y3; \
	VPADDD 32(R15), Y4, Y4; \
	VPADDD 96(R15), Y5, Y5; \
	VPADDD 160(R15), Y6, Y6; \
	VPADDD 224(R15), Y7, Y7; \
	VMOVDQU Y0, 0(R15); \
	VMOVDQU Y1, 64(R15); \
	VMOVDQU Y2, 128(R15); \
	VMOVDQU Y3, 192(R15); \
	VMOVDQU Y4, 32(R15); \
	VMOVDQU Y5, 96(R15); \
	VMOVDQU Y6, 160(R15); \
	VMOVDQU Y7, 224(R15)

// func blocksAVX2(state *[4][Lanes]uint32, data *[Lanes]*byte, n int)
TEXT ·blocksAVX2(SB), 0, $1024-24
	START
	VPCMPEQD Y13, Y13, Y13

block:
	BLOCK(STEP1, STEP2, STEP3, STEP4)
	ADDQ $64, SI
	DECQ n+16(FP)
	JNZ block
	VZEROUPPER
	RET

// func blocksAVX512(state *[4][Lanes]uint32, data *[Lanes]*byte, n int)
TEXT ·blocksAVX512(SB), 0, $1024-24
	START

block:
	BLOCK(TABLE1, TABLE2, TABLE3, TABLE4)
	ADDQ $64, SI
	DECQ n+16(FP)
	JNZ block
	VZEROUPPER
	RET

// func cpuid(leaf, part uint32) (b, c uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL leaf+0(FP), AX
	MOVL part+4(FP), CX
	CPUID
	MOVL BX, b+8(FP)
	MOVL CX, c+12(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
