# Registration on x86-64 Windows, as x86_64.s has it for Linux.
#
# Arguments are in rcx, rdx, r8 and r9, then on the stack above 32 bytes for these four. At each call, the stack
# pointer is a multiple of 16.

.macro function name
	.section .text.\name, "xr"
	.def \name\()_function; .endef
\name\()_function:
	.seh_proc \name\()_function
.endm

.macro end
	retq
	.seh_endproc
.endm

# align reserves the 32 bytes for arguments, and aligns the stack pointer.
.macro align
	subq	$40, %rsp
	.seh_stackalloc 40
	.seh_endprologue
.endm

.macro unalign
	nop					# the unwinder takes what follows for an epilogue
	addq	$40, %rsp
.endm

.macro push reg
	pushq	%\reg
	.seh_pushreg %\reg
.endm

# runtime name: a call of a function of the runtime of a fat binary. Its prefix replaces __runtime.
.macro runtime name
	callq	__runtime\name
.endm

.ifdef OPENMP
function register
	align
	leaq	descriptor(%rip), %rcx
	callq	__tgt_register_lib
	leaq	unregister(%rip), %rcx
	callq	atexit
	unalign
end

function unregister
	align
	leaq	descriptor(%rip), %rcx
	callq	__tgt_unregister_lib
	unalign
end
.endif

.ifdef SYCL
.macro sycl name
	align
.ifdef PACKAGE
	leaq	descriptor(%rip), %rax
	movq	(%rax), %rcx
	movq	8(%rax), %rdx
.else
	leaq	descriptor(%rip), %rcx
.endif
	callq	\name
	unalign
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
	align
	leaq	wrapper(%rip), %rcx
	runtime	RegisterFatBinary
	movq	%rax, handle(%rip)
	movq	%rax, %rcx
	callq	globals
.ifdef ENDS
	movq	handle(%rip), %rcx
	runtime	RegisterFatBinaryEnd
.endif
	leaq	unregister(%rip), %rcx
	callq	atexit
	unalign
end

function unregister
	align
	movq	handle(%rip), %rcx
	runtime	UnregisterFatBinary
	unalign
end

# globals(handle) registers the offload entries. rbx is the address of the current one, rsi of their end; rdi is the
# handle. r10 has the flags of an entry, r11 whether it is extern.
function globals
	push	rsi
	push	rdi
	push	rbx
	subq	$80, %rsp			# arguments 5 to 10
	.seh_stackalloc 80
	.seh_endprologue
	movq	%rcx, %rdi
	leaq	start(%rip), %rbx
	leaq	stop(%rip), %rsi
	jmp	.Lnext

.Lentry:
	cmpw	$KIND, 10(%rbx)
	jne	.Lstep
	movq	%rdi, %rcx			# handle
	movq	16(%rbx), %rdx			# address
	movq	24(%rbx), %r8			# name
	movq	%r8, %r9			# name on the device
	movq	32(%rbx), %rax			# size
	testq	%rax, %rax
	jne	.Lvariable

	# Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
	movl	$-1, 32(%rsp)
	movq	%rax, 40(%rsp)
	movq	%rax, 48(%rsp)
	movq	%rax, 56(%rsp)
	movq	%rax, 64(%rsp)
	movq	%rax, 72(%rsp)
	runtime	RegisterFunction
	{disp32} jmp	.Lstep			# as long for all runtimes, like those below

.Lvariable:
	movq	%rax, 40(%rsp)
	movl	12(%rbx), %r10d			# flags
	movl	%r10d, %r11d
	shrl	$3, %r11d
	andl	$1, %r11d			# extern
	movl	%r10d, %eax
	andl	$7, %eax			# type
	jne	.Lmanaged

	# Var(handle, address, name, name, extern, size, constant, 0)
	movl	%r11d, 32(%rsp)
	shrl	$4, %r10d
	andl	$1, %r10d
	movl	%r10d, 48(%rsp)
	movl	$0, 56(%rsp)
	runtime	RegisterVar
	{disp32} jmp	.Lstep

	# ManagedVar(handle, auxiliary address, address, name, size, data)
.Lmanaged:
	cmpl	$1, %eax
.ifdef TEXTURES
	{disp32} jne	.Lsurface
.else
	{disp32} jne	.Lstep
.endif
	movq	%rdx, %r8
	movq	48(%rbx), %rdx
	movq	40(%rsp), %rax
	movq	%rax, 32(%rsp)
	movl	40(%rbx), %eax
	movl	%eax, 40(%rsp)
	runtime	RegisterManagedVar

.ifdef TEXTURES
	{disp32} jmp	.Lstep

	# Surface(handle, address, name, name, data, extern)
.Lsurface:
	cmpl	$2, %eax
	jne	.Ltexture
	movl	40(%rbx), %eax
	movl	%eax, 32(%rsp)
	movl	%r11d, 40(%rsp)
	runtime	RegisterSurface
	{disp32} jmp	.Lstep

	# Texture(handle, address, name, name, data, normalized, extern)
.Ltexture:
	cmpl	$3, %eax
	jne	.Lstep
	movl	40(%rbx), %eax
	movl	%eax, 32(%rsp)
	shrl	$5, %r10d
	andl	$1, %r10d
	movl	%r10d, 40(%rsp)
	movl	%r11d, 48(%rsp)
	runtime	RegisterTexture
.endif

.Lstep:
	addq	$56, %rbx
.Lnext:
	cmpq	%rsi, %rbx
	jne	.Lentry
	addq	$80, %rsp
	popq	%rbx
	popq	%rdi
	popq	%rsi
end
.endif
