# Registration on x86-64 Linux. `go run ./tools/registration` assembles this file, once for each runtime, and writes
# the functions to ../assembled.go. The symbols OPENMP, SYCL, PACKAGE and, for fat binaries, KIND select the runtime. KIND is its
# number in offload entries; with TEXTURES and ENDS, it has more functions, see package runtimes.
#
# Arguments are in rdi, rsi, rdx, rcx, r8 and r9, then on the stack. At each call, the stack pointer is a multiple
# of 16.
#
# Each function has a section of its own, so that references between functions remain relocations. The names that
# functions reference are register, unregister and globals; descriptor, for OpenMP and SYCL; wrapper and handle, for
# HIP and CUDA; start and stop, the bounds of the offload entries; and functions of the runtimes.

.macro function name
	.section .text.\name, "ax", @progbits
	.cfi_startproc
.endm

.macro end
	.cfi_endproc
.endm

# push reg, size: saves a register that belongs to the caller; the frame then has size bytes.
.macro push reg, size
	pushq	%\reg
	.cfi_def_cfa_offset \size
	.cfi_offset \reg, -\size
.endm

# pop reg, size: the opposite; size bytes remain.
.macro pop reg, size
	popq	%\reg
	.cfi_def_cfa_offset \size
.endm

# align pushes 8 bytes, so that the stack pointer is a multiple of 16; unalign removes them.
.macro align
	pushq	%rax
	.cfi_def_cfa_offset 16
.endm

.macro unalign reg
	popq	%\reg
	.cfi_def_cfa_offset 8
.endm

# runtime operation, name: a call of, or a jump to, a function of the runtime of a fat binary. Its prefix replaces __runtime.
.macro runtime operation, name
	\operation	__runtime\name
.endm

.ifdef OPENMP
function register
	endbr64
	align
	leaq	descriptor(%rip), %rdi
	callq	__tgt_register_lib
	leaq	unregister(%rip), %rdi
	unalign	rax
	jmp	atexit
end

function unregister
	endbr64
	leaq	descriptor(%rip), %rdi
	jmp	__tgt_unregister_lib
end
.endif

# Of an offload binary, the runtime of SYCL takes the start and the size, which the descriptor has.
.ifdef SYCL
.macro sycl name
	endbr64
.ifdef PACKAGE
	leaq	descriptor(%rip), %rax
	movq	(%rax), %rdi
	movq	8(%rax), %rsi
.else
	leaq	descriptor(%rip), %rdi
.endif
	jmp	\name
.endm

function register
	sycl	__sycl_register_lib
end

function unregister
	sycl	__sycl_unregister_lib
end
.endif

.ifdef KIND
function register
	endbr64
	align
	leaq	wrapper(%rip), %rdi
	runtime	callq, RegisterFatBinary
	movq	%rax, handle(%rip)
	movq	%rax, %rdi
	callq	globals
.ifdef ENDS
	movq	handle(%rip), %rdi
	runtime	callq, RegisterFatBinaryEnd
.endif
	leaq	unregister(%rip), %rdi
	unalign	rax
	jmp	atexit
end

function unregister
	endbr64
	movq	handle(%rip), %rdi
	runtime	jmp, UnregisterFatBinary
end

# globals(handle) registers the offload entries. rbx is the address of the current one, r12 of their end; rbp is the
# handle. Only the constructor of the same object calls it, so it needs no endbr64.
function globals
	push	rbx, 16
	push	rbp, 24
	push	r12, 32
	subq	$32, %rsp			# arguments 7 to 10
	.cfi_def_cfa_offset 64
	movq	%rdi, %rbp
	leaq	start(%rip), %rbx
	leaq	stop(%rip), %r12
	jmp	.Lnext

.Lentry:
	cmpw	$KIND, 10(%rbx)
	jne	.Lstep
	movq	%rbp, %rdi			# handle
	movq	16(%rbx), %rsi			# address
	movq	24(%rbx), %rdx			# name
	movq	%rdx, %rcx			# name on the device
	movq	32(%rbx), %r9			# size
	testq	%r9, %r9
	jne	.Lvariable

	# Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
	movl	$-1, %r8d
	movq	%r9, (%rsp)
	movq	%r9, 8(%rsp)
	movq	%r9, 16(%rsp)
	movq	%r9, 24(%rsp)
	runtime	callq, RegisterFunction
	{disp32} jmp	.Lstep			# as long for all runtimes

.Lvariable:
	movl	12(%rbx), %eax			# flags
	movl	%eax, %r8d
	shrl	$3, %r8d
	andl	$1, %r8d			# extern
	movl	%eax, %r10d
	andl	$7, %r10d			# type
	jne	.Lmanaged

	# Var(handle, address, name, name, extern, size, constant, 0)
	shrl	$4, %eax
	andl	$1, %eax
	movq	%rax, (%rsp)
	movq	$0, 8(%rsp)
	runtime	callq, RegisterVar
	jmp	.Lstep

	# ManagedVar(handle, auxiliary address, address, name, size, data)
.Lmanaged:
	cmpl	$1, %r10d
.ifdef TEXTURES
	jne	.Lsurface
.else
	jne	.Lstep
.endif
	movq	%rsi, %rdx
	movq	48(%rbx), %rsi
	movq	%r9, %r8
	movl	40(%rbx), %r9d
	runtime	callq, RegisterManagedVar

.ifdef TEXTURES
	jmp	.Lstep

	# Surface(handle, address, name, name, data, extern)
.Lsurface:
	cmpl	$2, %r10d
	jne	.Ltexture
	movl	%r8d, %r9d
	movl	40(%rbx), %r8d
	runtime	callq, RegisterSurface
	jmp	.Lstep

	# Texture(handle, address, name, name, data, normalized, extern)
.Ltexture:
	cmpl	$3, %r10d
	jne	.Lstep
	movq	%r8, (%rsp)
	shrl	$5, %eax
	andl	$1, %eax
	movl	%eax, %r9d
	movl	40(%rbx), %r8d
	runtime	callq, RegisterTexture
.endif

.Lstep:
	addq	$56, %rbx
.Lnext:
	cmpq	%r12, %rbx
	jne	.Lentry
	addq	$32, %rsp
	.cfi_def_cfa_offset 32
	pop	r12, 24
	pop	rbp, 16
	pop	rbx, 8
	retq
end
.endif

# A constructor that does nothing.
.ifdef NOTHING
function register
	endbr64
	retq
end
.endif
