package register

import (
	"slices"

	"github.com/rules-offload/rules_offload/engine/object"
)

// aarch64 has the code for AArch64 Linux, little-endian. Arguments are in x0 to
// x7, then on the stack.
var aarch64 = machine{
	none:     0,                                                      // R_AARCH64_NONE
	abs64:    257,                                                    // R_AARCH64_ABS64
	property: 0xc0000000,                                             // GNU_PROPERTY_AARCH64_FEATURE_1_AND
	ready:    1 | 2 | 4,                                              // BTI, PAC, GCS
	filler:   0,                                                      // udf #0
	nothing:  []byte{0x5f, 0x24, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}, // bti c; ret
	unwind:   object.ShtProgbits,
	words:    true,
	// Return address in x30, frame at sp (31).
	frame:      frame{codeAlign: 4, returnAddress: 30, start: "0c1f00", prel32: 261}, // R_AARCH64_PREL32
	register:   aarch64Register,
	globals:    aarch64Globals,
	unregister: aarch64Unregister,
	registerOpenMP: []instr{
		{code: "d503233f", asm: "paciasp", cfi: "2d"},
		{code: "a9bf7bfd", asm: "stp x29, x30, [sp, #-0x10]!", cfi: "0e10 9d02 9e01"},
		{code: "910003fd", asm: "mov x29, sp"},
		{code: "90000000", asm: "adrp x0, descriptor", fix: fixPage, to: "descriptor"},
		{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "descriptor"},
		{code: "94000000", asm: "bl __tgt_register_lib", fix: fixCall, to: "__tgt_register_lib"},
		{code: "90000000", asm: "adrp x0, unregister", fix: fixPage, to: "unregister"},
		{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "unregister"},
		{code: "a8c17bfd", asm: "ldp x29, x30, [sp], #0x10", cfi: "0e00 dd de"},
		{code: "d50323bf", asm: "autiasp", cfi: "2d"},
		{code: "14000000", asm: "b atexit", fix: fixJump, to: "atexit"},
	},
	unregisterOpenMP: []instr{
		{code: "d503245f", asm: "bti c"},
		{code: "90000000", asm: "adrp x0, descriptor", fix: fixPage, to: "descriptor"},
		{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "descriptor"},
		{code: "14000000", asm: "b __tgt_unregister_lib", fix: fixJump, to: "__tgt_unregister_lib"},
	},
	sycl: func(function string, whole bool) []instr {
		if !whole {
			return []instr{
				{code: "d503245f", asm: "bti c"},
				{code: "90000000", asm: "adrp x0, descriptor", fix: fixPage, to: "descriptor"},
				{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "descriptor"},
				{code: "14000000", asm: "b " + function, fix: fixJump, to: function},
			}
		}
		return []instr{
			{code: "d503245f", asm: "bti c"},
			{code: "90000008", asm: "adrp x8, descriptor", fix: fixPage, to: "descriptor"},
			{code: "91000108", asm: "add x8, x8, #0x0", fix: fixAdd, to: "descriptor"},
			{code: "a9400500", asm: "ldp x0, x1, [x8]"},
			{code: "14000000", asm: "b " + function, fix: fixJump, to: function},
		}
	},
}

func aarch64Register(k Kind) []instr {
	list := []instr{
		{code: "d503233f", asm: "paciasp", cfi: "2d"},
		{code: "a9bf7bfd", asm: "stp x29, x30, [sp, #-0x10]!", cfi: "0e10 9d02 9e01"},
		{code: "910003fd", asm: "mov x29, sp"},
		{code: "90000000", asm: "adrp x0, wrapper", fix: fixPage, to: "wrapper"},
		{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "wrapper"},
		{code: "94000000", asm: "bl RegisterFatBinary", fix: fixCall, to: k.function("RegisterFatBinary")},
		{code: "90000008", asm: "adrp x8, handle", fix: fixPage, to: "handle"},
		{code: "f9000100", asm: "str x0, [x8]", fix: fixLdSt, to: "handle"},
		{code: "94000000", asm: "bl globals", fix: fixCall, to: "globals"},
	}
	if k == CUDA {
		list = append(list,
			instr{code: "90000008", asm: "adrp x8, handle", fix: fixPage, to: "handle"},
			instr{code: "f9400100", asm: "ldr x0, [x8]", fix: fixLdSt, to: "handle"},
			instr{code: "94000000", asm: "bl RegisterFatBinaryEnd", fix: fixCall, to: k.function("RegisterFatBinaryEnd")},
		)
	}
	return append(list,
		instr{code: "90000000", asm: "adrp x0, unregister", fix: fixPage, to: "unregister"},
		instr{code: "91000000", asm: "add x0, x0, #0x0", fix: fixAdd, to: "unregister"},
		instr{code: "a8c17bfd", asm: "ldp x29, x30, [sp], #0x10", cfi: "0e00 dd de"},
		instr{code: "d50323bf", asm: "autiasp", cfi: "2d"},
		instr{code: "14000000", asm: "b atexit", fix: fixJump, to: "atexit"},
	)
}

func aarch64Unregister(k Kind) []instr {
	return []instr{
		{code: "d503245f", asm: "bti c"},
		{code: "90000008", asm: "adrp x8, handle", fix: fixPage, to: "handle"},
		{code: "f9400100", asm: "ldr x0, [x8]", fix: fixLdSt, to: "handle"},
		{code: "14000000", asm: "b UnregisterFatBinary", fix: fixJump, to: k.function("UnregisterFatBinary")},
	}
}

// aarch64Globals takes the handle and goes through the offload entries: x19 is
// at the current one, x20 at their end, x21 has the handle.
func aarch64Globals(k Kind) []instr {
	kind := instr{code: "7100111f", asm: "cmp w8, #0x4"}
	if k == CUDA {
		kind = instr{code: "7100091f", asm: "cmp w8, #0x2"}
	}
	notManaged := "step"
	if k == HIP {
		notManaged = "surface"
	}
	head := []instr{
		{code: "d503233f", asm: "paciasp", cfi: "2d"},
		{code: "d10103ff", asm: "sub sp, sp, #0x40", cfi: "0e40"}, // arguments 9 and 10 at its end
		{code: "a9017bfd", asm: "stp x29, x30, [sp, #0x10]", cfi: "9d06 9e05"},
		{code: "910043fd", asm: "add x29, sp, #0x10"},
		{code: "a90253f3", asm: "stp x19, x20, [sp, #0x20]", cfi: "9304 9403"},
		{code: "f9001bf5", asm: "str x21, [sp, #0x30]", cfi: "9502"},
		{code: "aa0003f5", asm: "mov x21, x0"},
		{code: "90000013", asm: "adrp x19, start", fix: fixPage, to: "start"},
		{code: "91000273", asm: "add x19, x19, #0x0", fix: fixAdd, to: "start"},
		{code: "90000014", asm: "adrp x20, stop", fix: fixPage, to: "stop"},
		{code: "91000294", asm: "add x20, x20, #0x0", fix: fixAdd, to: "stop"},
		{code: "14000000", asm: "b next", fix: fixImm26, to: "next"},

		{label: "entry"},
		{code: "79401668", asm: "ldrh w8, [x19, #0xa]"},
		kind,
		{code: "54000001", asm: "b.ne step", fix: fixImm19, to: "step"},
		{code: "aa1503e0", asm: "mov x0, x21"},          // handle
		{code: "f9400a61", asm: "ldr x1, [x19, #0x10]"}, // address
		{code: "f9400e62", asm: "ldr x2, [x19, #0x18]"}, // name
		{code: "aa0203e3", asm: "mov x3, x2"},           // name on the device
		{code: "f9401265", asm: "ldr x5, [x19, #0x20]"}, // size
		{code: "b5000005", asm: "cbnz x5, variable", fix: fixImm19, to: "variable"},

		// Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
		{code: "12800004", asm: "mov w4, #-0x1"},
		{code: "aa1f03e6", asm: "mov x6, xzr"},
		{code: "aa1f03e7", asm: "mov x7, xzr"},
		{code: "a9007fff", asm: "stp xzr, xzr, [sp]"},
		{code: "94000000", asm: "bl RegisterFunction", fix: fixCall, to: k.function("RegisterFunction")},
		{code: "14000000", asm: "b step", fix: fixImm26, to: "step"},

		{label: "variable"},
		{code: "b9400e68", asm: "ldr w8, [x19, #0xc]"}, // flags
		{code: "53030d04", asm: "ubfx w4, w8, #3, #1"}, // extern
		{code: "72000909", asm: "ands w9, w8, #0x7"},   // type
		{code: "54000001", asm: "b.ne managed", fix: fixImm19, to: "managed"},

		// Var(handle, address, name, name, extern, size, constant, 0)
		{code: "53041106", asm: "ubfx w6, w8, #4, #1"},
		{code: "2a1f03e7", asm: "mov w7, wzr"},
		{code: "94000000", asm: "bl RegisterVar", fix: fixCall, to: k.function("RegisterVar")},
		{code: "14000000", asm: "b step", fix: fixImm26, to: "step"},

		// ManagedVar(handle, auxiliary address, address, name, size, data)
		{label: "managed"},
		{code: "7100053f", asm: "cmp w9, #0x1"},
		{code: "54000001", asm: "b.ne " + notManaged, fix: fixImm19, to: notManaged},
		{code: "aa0103e2", asm: "mov x2, x1"},
		{code: "f9401a61", asm: "ldr x1, [x19, #0x30]"},
		{code: "aa0503e4", asm: "mov x4, x5"},
		{code: "b9402a65", asm: "ldr w5, [x19, #0x28]"},
		{code: "94000000", asm: "bl RegisterManagedVar", fix: fixCall, to: k.function("RegisterManagedVar")},
	}
	handles := []instr{
		{code: "14000000", asm: "b step", fix: fixImm26, to: "step"},

		// Surface(handle, address, name, name, data, extern)
		{label: "surface"},
		{code: "7100093f", asm: "cmp w9, #0x2"},
		{code: "54000001", asm: "b.ne texture", fix: fixImm19, to: "texture"},
		{code: "2a0403e5", asm: "mov w5, w4"},
		{code: "b9402a64", asm: "ldr w4, [x19, #0x28]"},
		{code: "94000000", asm: "bl RegisterSurface", fix: fixCall, to: k.function("RegisterSurface")},
		{code: "14000000", asm: "b step", fix: fixImm26, to: "step"},

		// Texture(handle, address, name, name, data, normalized, extern)
		{label: "texture"},
		{code: "71000d3f", asm: "cmp w9, #0x3"},
		{code: "54000001", asm: "b.ne step", fix: fixImm19, to: "step"},
		{code: "2a0403e6", asm: "mov w6, w4"},
		{code: "53051505", asm: "ubfx w5, w8, #5, #1"},
		{code: "b9402a64", asm: "ldr w4, [x19, #0x28]"},
		{code: "94000000", asm: "bl RegisterTexture", fix: fixCall, to: k.function("RegisterTexture")},
	}
	if k == CUDA {
		handles = nil
	}
	tail := []instr{
		{label: "step"},
		{code: "9100e273", asm: "add x19, x19, #0x38"},
		{label: "next"},
		{code: "eb14027f", asm: "cmp x19, x20"},
		{code: "54000001", asm: "b.ne entry", fix: fixImm19, to: "entry"},
		{code: "f9401bf5", asm: "ldr x21, [sp, #0x30]", cfi: "d5"},
		{code: "a94253f3", asm: "ldp x19, x20, [sp, #0x20]", cfi: "d3 d4"},
		{code: "a9417bfd", asm: "ldp x29, x30, [sp, #0x10]", cfi: "dd de"},
		{code: "910103ff", asm: "add sp, sp, #0x40", cfi: "0e00"},
		{code: "d50323bf", asm: "autiasp", cfi: "2d"},
		{code: "d65f03c0", asm: "ret"},
	}
	return slices.Concat(head, handles, tail)
}
