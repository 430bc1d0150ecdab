package register

import "slices"

// x86 has the code for x86-64 Linux. Arguments are in rdi, rsi, rdx, rcx, r8 and
// r9, then on the stack, whose pointer is a multiple of 16 at each call.
var x86 = machine{
	none:     0,                                    // R_X86_64_NONE
	abs64:    1,                                    // R_X86_64_64
	property: 0xc0000002,                           // GNU_PROPERTY_X86_FEATURE_1_AND
	ready:    1 | 2,                                // IBT, SHSTK
	large:    0x10000000,                           // SHF_X86_64_LARGE
	filler:   0xcc,                                 // int3
	nothing:  []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xc3}, // endbr64; ret
	unwind:   0x70000001,                           // SHT_X86_64_UNWIND
	// Return address in register 16, frame 8 bytes above rsp (7), return address 8 below it.
	frame:      frame{codeAlign: 1, returnAddress: 16, start: "0c0708 9001", prel32: 2}, // R_X86_64_PC32
	register:   x86Register,
	globals:    x86Globals,
	unregister: x86Unregister,
	registerOpenMP: []instr{
		{code: "f30f1efa", asm: "endbr64"},
		{code: "50", asm: "pushq %rax", cfi: "0e10"}, // aligns the stack
		{code: "488d3d", asm: "leaq descriptor(%rip), %rdi", fix: fixPC32, to: "descriptor"},
		{code: "e8", asm: "callq __tgt_register_lib", fix: fixPLT32, to: "__tgt_register_lib"},
		{code: "488d3d", asm: "leaq unregister(%rip), %rdi", fix: fixPC32, to: "unregister"},
		{code: "58", asm: "popq %rax", cfi: "0e08"},
		{code: "e9", asm: "jmp atexit", fix: fixPLT32, to: "atexit"},
	},
	unregisterOpenMP: []instr{
		{code: "f30f1efa", asm: "endbr64"},
		{code: "488d3d", asm: "leaq descriptor(%rip), %rdi", fix: fixPC32, to: "descriptor"},
		{code: "e9", asm: "jmp __tgt_unregister_lib", fix: fixPLT32, to: "__tgt_unregister_lib"},
	},
	sycl: func(function string, whole bool) []instr {
		if !whole {
			return []instr{
				{code: "f30f1efa", asm: "endbr64"},
				{code: "488d3d", asm: "leaq descriptor(%rip), %rdi", fix: fixPC32, to: "descriptor"},
				{code: "e9", asm: "jmp " + function, fix: fixPLT32, to: function},
			}
		}
		return []instr{
			{code: "f30f1efa", asm: "endbr64"},
			{code: "488d05", asm: "leaq descriptor(%rip), %rax", fix: fixPC32, to: "descriptor"},
			{code: "488b38", asm: "movq (%rax), %rdi"},
			{code: "488b7008", asm: "movq 0x8(%rax), %rsi"},
			{code: "e9", asm: "jmp " + function, fix: fixPLT32, to: function},
		}
	},
}

func x86Register(k Kind) []instr {
	list := []instr{
		{code: "f30f1efa", asm: "endbr64"},
		{code: "50", asm: "pushq %rax", cfi: "0e10"}, // aligns the stack
		{code: "488d3d", asm: "leaq wrapper(%rip), %rdi", fix: fixPC32, to: "wrapper"},
		{code: "e8", asm: "callq RegisterFatBinary", fix: fixPLT32, to: k.function("RegisterFatBinary")},
		{code: "488905", asm: "movq %rax, handle(%rip)", fix: fixPC32, to: "handle"},
		{code: "4889c7", asm: "movq %rax, %rdi"},
		{code: "e8", asm: "callq globals", fix: fixPLT32, to: "globals"},
	}
	if k == CUDA {
		list = append(list,
			instr{code: "488b3d", asm: "movq handle(%rip), %rdi", fix: fixPC32, to: "handle"},
			instr{code: "e8", asm: "callq RegisterFatBinaryEnd", fix: fixPLT32, to: k.function("RegisterFatBinaryEnd")},
		)
	}
	return append(list,
		instr{code: "488d3d", asm: "leaq unregister(%rip), %rdi", fix: fixPC32, to: "unregister"},
		instr{code: "58", asm: "popq %rax", cfi: "0e08"},
		instr{code: "e9", asm: "jmp atexit", fix: fixPLT32, to: "atexit"},
	)
}

func x86Unregister(k Kind) []instr {
	return []instr{
		{code: "f30f1efa", asm: "endbr64"},
		{code: "488b3d", asm: "movq handle(%rip), %rdi", fix: fixPC32, to: "handle"},
		{code: "e9", asm: "jmp UnregisterFatBinary", fix: fixPLT32, to: k.function("UnregisterFatBinary")},
	}
}

// x86Globals takes the handle and goes through the offload entries: rbx is at
// the current one, r12 at their end, rbp has the handle. Only the constructor of
// the same object calls it, so it needs no endbr64.
func x86Globals(k Kind) []instr {
	kind := instr{code: "66837b0a04", asm: "cmpw $0x4, 0xa(%rbx)"}
	if k == CUDA {
		kind = instr{code: "66837b0a02", asm: "cmpw $0x2, 0xa(%rbx)"}
	}
	notManaged := "step"
	if k == HIP {
		notManaged = "surface"
	}
	head := []instr{
		{code: "53", asm: "pushq %rbx", cfi: "0e10 83 02"},
		{code: "55", asm: "pushq %rbp", cfi: "0e18 86 03"},
		{code: "4154", asm: "pushq %r12", cfi: "0e20 8c 04"},
		{code: "4883ec20", asm: "subq $0x20, %rsp", cfi: "0e40"}, // arguments 7 to 10
		{code: "4889fd", asm: "movq %rdi, %rbp"},
		{code: "488d1d", asm: "leaq start(%rip), %rbx", fix: fixPC32, to: "start"},
		{code: "4c8d25", asm: "leaq stop(%rip), %r12", fix: fixPC32, to: "stop"},
		{code: "e9", asm: "jmp next", fix: fixRel32, to: "next"},

		{label: "entry"},
		kind,
		{code: "0f85", asm: "jne step", fix: fixRel32, to: "step"},
		{code: "4889ef", asm: "movq %rbp, %rdi"},         // handle
		{code: "488b7310", asm: "movq 0x10(%rbx), %rsi"}, // address
		{code: "488b5318", asm: "movq 0x18(%rbx), %rdx"}, // name
		{code: "4889d1", asm: "movq %rdx, %rcx"},         // name on the device
		{code: "4c8b4b20", asm: "movq 0x20(%rbx), %r9"},  // size
		{code: "4d85c9", asm: "testq %r9, %r9"},
		{code: "75", asm: "jne variable", fix: fixRel8, to: "variable"},

		// Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
		{code: "41b8ffffffff", asm: "movl $0xffffffff, %r8d"},
		{code: "4c890c24", asm: "movq %r9, (%rsp)"},
		{code: "4c894c2408", asm: "movq %r9, 0x8(%rsp)"},
		{code: "4c894c2410", asm: "movq %r9, 0x10(%rsp)"},
		{code: "4c894c2418", asm: "movq %r9, 0x18(%rsp)"},
		{code: "e8", asm: "callq RegisterFunction", fix: fixPLT32, to: k.function("RegisterFunction")},
		{code: "e9", asm: "jmp step", fix: fixRel32, to: "step"},

		{label: "variable"},
		{code: "8b430c", asm: "movl 0xc(%rbx), %eax"}, // flags
		{code: "4189c0", asm: "movl %eax, %r8d"},
		{code: "41c1e803", asm: "shrl $0x3, %r8d"},
		{code: "4183e001", asm: "andl $0x1, %r8d"}, // extern
		{code: "4189c2", asm: "movl %eax, %r10d"},
		{code: "4183e207", asm: "andl $0x7, %r10d"}, // type
		{code: "75", asm: "jne managed", fix: fixRel8, to: "managed"},

		// Var(handle, address, name, name, extern, size, constant, 0)
		{code: "c1e804", asm: "shrl $0x4, %eax"},
		{code: "83e001", asm: "andl $0x1, %eax"},
		{code: "48890424", asm: "movq %rax, (%rsp)"},
		{code: "48c744240800000000", asm: "movq $0x0, 0x8(%rsp)"},
		{code: "e8", asm: "callq RegisterVar", fix: fixPLT32, to: k.function("RegisterVar")},
		{code: "eb", asm: "jmp step", fix: fixRel8, to: "step"},

		// ManagedVar(handle, auxiliary address, address, name, size, data)
		{label: "managed"},
		{code: "4183fa01", asm: "cmpl $0x1, %r10d"},
		{code: "75", asm: "jne " + notManaged, fix: fixRel8, to: notManaged},
		{code: "4889f2", asm: "movq %rsi, %rdx"},
		{code: "488b7330", asm: "movq 0x30(%rbx), %rsi"},
		{code: "4d89c8", asm: "movq %r9, %r8"},
		{code: "448b4b28", asm: "movl 0x28(%rbx), %r9d"},
		{code: "e8", asm: "callq RegisterManagedVar", fix: fixPLT32, to: k.function("RegisterManagedVar")},
	}
	handles := []instr{
		{code: "eb", asm: "jmp step", fix: fixRel8, to: "step"},

		// Surface(handle, address, name, name, data, extern)
		{label: "surface"},
		{code: "4183fa02", asm: "cmpl $0x2, %r10d"},
		{code: "75", asm: "jne texture", fix: fixRel8, to: "texture"},
		{code: "4589c1", asm: "movl %r8d, %r9d"},
		{code: "448b4328", asm: "movl 0x28(%rbx), %r8d"},
		{code: "e8", asm: "callq RegisterSurface", fix: fixPLT32, to: k.function("RegisterSurface")},
		{code: "eb", asm: "jmp step", fix: fixRel8, to: "step"},

		// Texture(handle, address, name, name, data, normalized, extern)
		{label: "texture"},
		{code: "4183fa03", asm: "cmpl $0x3, %r10d"},
		{code: "75", asm: "jne step", fix: fixRel8, to: "step"},
		{code: "4c890424", asm: "movq %r8, (%rsp)"},
		{code: "c1e805", asm: "shrl $0x5, %eax"},
		{code: "83e001", asm: "andl $0x1, %eax"},
		{code: "4189c1", asm: "movl %eax, %r9d"},
		{code: "448b4328", asm: "movl 0x28(%rbx), %r8d"},
		{code: "e8", asm: "callq RegisterTexture", fix: fixPLT32, to: k.function("RegisterTexture")},
	}
	if k == CUDA {
		handles = nil
	}
	tail := []instr{
		{label: "step"},
		{code: "4883c338", asm: "addq $0x38, %rbx"},
		{label: "next"},
		{code: "4c39e3", asm: "cmpq %r12, %rbx"},
		{code: "0f85", asm: "jne entry", fix: fixRel32, to: "entry"},
		{code: "4883c420", asm: "addq $0x20, %rsp", cfi: "0e20"},
		{code: "415c", asm: "popq %r12", cfi: "0e18"},
		{code: "5d", asm: "popq %rbp", cfi: "0e10"},
		{code: "5b", asm: "popq %rbx", cfi: "0e08"},
		{code: "c3", asm: "retq"},
	}
	return slices.Concat(head, handles, tail)
}
