#include "textflag.h"

// offload_entry is the entry point of the program if the linker gets -E offload_entry. It runs before the
// runtime of Go: that opens /dev/null in place of a closed standard stream, and prints a stack trace if it
// cannot reserve address space. The stack is that of the kernel.
TEXT offload_entry(SB),NOSPLIT|NOFRAME,$0
	MOVQ	$72, AX // fcntl
	MOVQ	$1, DI // standard output
	MOVQ	$1, SI // F_GETFD
	SYSCALL
	CMPQ	AX, $-9 // EBADF
	JNE	limit
	MOVL	$1, ·stdoutClosed(SB)
limit:
	MOVQ	$302, AX // prlimit64
	MOVQ	$0, DI // of this process
	MOVQ	$9, SI // RLIMIT_AS
	MOVQ	$0, DX
	LEAQ	-64(SP), R10
	SYSCALL
	TESTQ	AX, AX
	JNE	run
	MOVQ	-64(SP), AX
	CMPQ	AX, ·leastSpace(SB)
	JCS	small
	MOVQ	·usedSpace(SB), CX
	CMPQ	AX, CX
	JCS	run
	CMPQ	AX, ·largeSpace(SB)
	JCC	run
	MOVQ	CX, -64(SP)
	MOVQ	$302, AX // prlimit64
	MOVQ	$0, DI
	MOVQ	$9, SI // RLIMIT_AS
	LEAQ	-64(SP), DX
	MOVQ	$0, R10
	SYSCALL
run:
	JMP	_rt0_amd64_linux(SB)
small:
	MOVQ	$1, AX // write
	MOVQ	$2, DI
	MOVQ	·spaceMessage(SB), SI
	MOVQ	·spaceMessage+8(SB), DX
	SYSCALL
	MOVQ	$231, AX // exit_group
	MOVQ	$1, DI
	SYSCALL
