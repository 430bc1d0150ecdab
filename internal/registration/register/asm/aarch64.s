# Registration on AArch64 Linux, little-endian, as x86_64.s has it for x86-64.
#
# Arguments are in x0 to x7, then on the stack.

.macro function name
	.section .text.\name, "ax", @progbits
	.cfi_startproc
.endm

.macro end
	.cfi_endproc
.endm

# enter saves the frame pointer and the signed return address; leave restores them.
.macro enter
	paciasp
	.cfi_negate_ra_state
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
.endm

.macro leave
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	autiasp
	.cfi_negate_ra_state
.endm

# address reg, name: the address of a symbol.
.macro address reg, name
	adrp	\reg, \name
	add	\reg, \reg, :lo12:\name
.endm

# runtime operation, name: a call of, or a jump to, a function of the runtime of a fat binary. Its prefix replaces __runtime.
.macro runtime operation, name
	\operation	__runtime\name
.endm

.ifdef OPENMP
function register
	enter
	address	x0, descriptor
	bl	__tgt_register_lib
	address	x0, unregister
	leave
	b	atexit
end

function unregister
	bti	c
	address	x0, descriptor
	b	__tgt_unregister_lib
end
.endif

.ifdef SYCL
.macro sycl name
	bti	c
.ifdef PACKAGE
	address	x8, descriptor
	ldp	x0, x1, [x8]
.else
	address	x0, descriptor
.endif
	b	\name
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
	enter
	address	x0, wrapper
	runtime	bl, RegisterFatBinary
	adrp	x8, handle
	str	x0, [x8, :lo12:handle]
	bl	globals
.ifdef ENDS
	adrp	x8, handle
	ldr	x0, [x8, :lo12:handle]
	runtime	bl, RegisterFatBinaryEnd
.endif
	address	x0, unregister
	leave
	b	atexit
end

function unregister
	bti	c
	adrp	x8, handle
	ldr	x0, [x8, :lo12:handle]
	runtime	b, UnregisterFatBinary
end

# globals(handle) registers the offload entries. x19 is the address of the current one, x20 of their end; x21 is the
# handle.
function globals
	paciasp
	.cfi_negate_ra_state
	sub	sp, sp, #64			// arguments 9 and 10 at its end
	.cfi_def_cfa_offset 64
	stp	x29, x30, [sp, #16]
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	add	x29, sp, #16
	stp	x19, x20, [sp, #32]
	.cfi_offset x19, -32
	.cfi_offset x20, -24
	str	x21, [sp, #48]
	.cfi_offset x21, -16
	mov	x21, x0
	address	x19, start
	address	x20, stop
	b	.Lnext

.Lentry:
	ldrh	w8, [x19, #10]
	cmp	w8, #KIND
	b.ne	.Lstep
	mov	x0, x21				// handle
	ldr	x1, [x19, #16]			// address
	ldr	x2, [x19, #24]			// name
	mov	x3, x2				// name on the device
	ldr	x5, [x19, #32]			// size
	cbnz	x5, .Lvariable

	// Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
	mov	w4, #-1
	mov	x6, xzr
	mov	x7, xzr
	stp	xzr, xzr, [sp]
	runtime	bl, RegisterFunction
	b	.Lstep

.Lvariable:
	ldr	w8, [x19, #12]			// flags
	ubfx	w4, w8, #3, #1			// extern
	ands	w9, w8, #7			// type
	b.ne	.Lmanaged

	// Var(handle, address, name, name, extern, size, constant, 0)
	ubfx	w6, w8, #4, #1
	mov	w7, wzr
	runtime	bl, RegisterVar
	b	.Lstep

	// ManagedVar(handle, auxiliary address, address, name, size, data)
.Lmanaged:
	cmp	w9, #1
.ifdef TEXTURES
	b.ne	.Lsurface
.else
	b.ne	.Lstep
.endif
	mov	x2, x1
	ldr	x1, [x19, #48]
	mov	x4, x5
	ldr	w5, [x19, #40]
	runtime	bl, RegisterManagedVar

.ifdef TEXTURES
	b	.Lstep

	// Surface(handle, address, name, name, data, extern)
.Lsurface:
	cmp	w9, #2
	b.ne	.Ltexture
	mov	w5, w4
	ldr	w4, [x19, #40]
	runtime	bl, RegisterSurface
	b	.Lstep

	// Texture(handle, address, name, name, data, normalized, extern)
.Ltexture:
	cmp	w9, #3
	b.ne	.Lstep
	mov	w6, w4
	ubfx	w5, w8, #5, #1
	ldr	w4, [x19, #40]
	runtime	bl, RegisterTexture
.endif

.Lstep:
	add	x19, x19, #56
.Lnext:
	cmp	x19, x20
	b.ne	.Lentry
	ldr	x21, [sp, #48]
	.cfi_restore x21
	ldp	x19, x20, [sp, #32]
	.cfi_restore x19
	.cfi_restore x20
	ldp	x29, x30, [sp, #16]
	.cfi_restore x29
	.cfi_restore x30
	add	sp, sp, #64
	.cfi_def_cfa_offset 0
	autiasp
	.cfi_negate_ra_state
	ret
end
.endif

# A constructor that does nothing.
.ifdef NOTHING
function register
	bti	c
	ret
end
.endif
