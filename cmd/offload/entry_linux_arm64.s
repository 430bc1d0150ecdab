#include "textflag.h"

// offload_entry is that of entry_linux_amd64.s.
TEXT offload_entry(SB),NOSPLIT|NOFRAME,$0
	MOVD	$25, R8 // fcntl
	MOVD	$1, R0 // standard output
	MOVD	$1, R1 // F_GETFD
	SVC
	CMN	$9, R0 // EBADF
	BNE	limit
	MOVW	$1, R1
	MOVW	R1, ·stdoutClosed(SB)
limit:
	MOVD	$261, R8 // prlimit64
	MOVD	$0, R0 // of this process
	MOVD	$9, R1 // RLIMIT_AS
	MOVD	$0, R2
	SUB	$64, RSP, R19
	MOVD	R19, R3
	SVC
	CBNZ	R0, run
	MOVD	(R19), R20
	MOVD	·leastSpace(SB), R1
	CMP	R1, R20
	BLO	small
	MOVD	·usedSpace(SB), R21
	CMP	R21, R20
	BLO	run
	MOVD	·largeSpace(SB), R1
	CMP	R1, R20
	BHS	run
	MOVD	R21, (R19)
	MOVD	$261, R8 // prlimit64
	MOVD	$0, R0
	MOVD	$9, R1 // RLIMIT_AS
	MOVD	R19, R2
	MOVD	$0, R3
	SVC
run:
	JMP	_rt0_arm64_linux(SB)
small:
	MOVD	$64, R8 // write
	MOVD	$2, R0
	MOVD	·spaceMessage(SB), R1
	MOVD	·spaceMessage+8(SB), R2
	SVC
	MOVD	$94, R8 // exit_group
	MOVD	$1, R0
	SVC
