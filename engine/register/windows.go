package register

import (
	"encoding/binary"
	"slices"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
)

// windows has the code for x86-64 Windows. Arguments are in rcx, rdx, r8 and r9,
// then on the stack above 32 bytes for these four; the stack pointer is a multiple
// of 16 at each call. What an instruction does to the frame is a code of .xdata.
var windows = machine{
	coff:       true,
	abs64:      object.COFFAddr64,
	filler:     0xcc, // int3
	register:   windowsRegister,
	globals:    windowsGlobals,
	unregister: windowsUnregister,
	registerOpenMP: []instr{
		{code: "4883ec28", asm: "subq $0x28, %rsp", cfi: "42"}, // aligns the stack
		{code: "488d0d", asm: "leaq descriptor(%rip), %rcx", fix: fixCOFF32, to: "descriptor"},
		{code: "e8", asm: "callq __tgt_register_lib", fix: fixCOFF32, to: "__tgt_register_lib"},
		{code: "488d0d", asm: "leaq unregister(%rip), %rcx", fix: fixCOFF32, to: "unregister"},
		{code: "e8", asm: "callq atexit", fix: fixCOFF32, to: "atexit"},
		{code: "90", asm: "nop"},
		{code: "4883c428", asm: "addq $0x28, %rsp"},
		{code: "c3", asm: "retq"},
	},
	unregisterOpenMP: windowsCall("__tgt_unregister_lib", instr{code: "488d0d", asm: "leaq descriptor(%rip), %rcx", fix: fixCOFF32, to: "descriptor"}),
	sycl: func(function string, whole bool) []instr {
		if !whole {
			return windowsCall(function, instr{code: "488d0d", asm: "leaq descriptor(%rip), %rcx", fix: fixCOFF32, to: "descriptor"})
		}
		return windowsCall(function,
			instr{code: "488d05", asm: "leaq descriptor(%rip), %rax", fix: fixCOFF32, to: "descriptor"},
			instr{code: "488b08", asm: "movq (%rax), %rcx"},
			instr{code: "488b5008", asm: "movq 0x8(%rax), %rdx"},
		)
	},
}

// windowsCall returns a function that calls another one after some instructions.
func windowsCall(function string, before ...instr) []instr {
	return slices.Concat(
		[]instr{{code: "4883ec28", asm: "subq $0x28, %rsp", cfi: "42"}},
		before,
		[]instr{
			{code: "e8", asm: "callq " + function, fix: fixCOFF32, to: function},
			{code: "90", asm: "nop"},
			{code: "4883c428", asm: "addq $0x28, %rsp"},
			{code: "c3", asm: "retq"},
		})
}

func windowsRegister(k Kind) []instr {
	list := []instr{
		{code: "4883ec28", asm: "subq $0x28, %rsp", cfi: "42"},
		{code: "488d0d", asm: "leaq wrapper(%rip), %rcx", fix: fixCOFF32, to: "wrapper"},
		{code: "e8", asm: "callq RegisterFatBinary", fix: fixCOFF32, to: k.function("RegisterFatBinary")},
		{code: "488905", asm: "movq %rax, handle(%rip)", fix: fixCOFF32, to: "handle"},
		{code: "4889c1", asm: "movq %rax, %rcx"},
		{code: "e8", asm: "callq globals", fix: fixCOFF32, to: "globals"},
	}
	if k == CUDA {
		list = append(list,
			instr{code: "488b0d", asm: "movq handle(%rip), %rcx", fix: fixCOFF32, to: "handle"},
			instr{code: "e8", asm: "callq RegisterFatBinaryEnd", fix: fixCOFF32, to: k.function("RegisterFatBinaryEnd")},
		)
	}
	return append(list,
		instr{code: "488d0d", asm: "leaq unregister(%rip), %rcx", fix: fixCOFF32, to: "unregister"},
		instr{code: "e8", asm: "callq atexit", fix: fixCOFF32, to: "atexit"},
		instr{code: "90", asm: "nop"},
		instr{code: "4883c428", asm: "addq $0x28, %rsp"},
		instr{code: "c3", asm: "retq"},
	)
}

func windowsUnregister(k Kind) []instr {
	return windowsCall(k.function("UnregisterFatBinary"), instr{code: "488b0d", asm: "movq handle(%rip), %rcx", fix: fixCOFF32, to: "handle"})
}

// windowsGlobals takes the handle and goes through the offload entries: rbx is at
// the current one, rsi at their end, rdi has the handle. r10 has the flags of an
// entry and r11 whether it is extern.
func windowsGlobals(k Kind) []instr {
	kind := instr{code: "66837b0a04", asm: "cmpw $0x4, 0xa(%rbx)"}
	if k == CUDA {
		kind = instr{code: "66837b0a02", asm: "cmpw $0x2, 0xa(%rbx)"}
	}
	notManaged := "step"
	if k == HIP {
		notManaged = "surface"
	}
	head := []instr{
		{code: "56", asm: "pushq %rsi", cfi: "60"},
		{code: "57", asm: "pushq %rdi", cfi: "70"},
		{code: "53", asm: "pushq %rbx", cfi: "30"},
		{code: "4883ec50", asm: "subq $0x50, %rsp", cfi: "92"}, // arguments 5 to 10
		{code: "4889cf", asm: "movq %rcx, %rdi"},
		{code: "488d1d", asm: "leaq start(%rip), %rbx", fix: fixCOFF32, to: "start"},
		{code: "488d35", asm: "leaq stop(%rip), %rsi", fix: fixCOFF32, to: "stop"},
		{code: "e9", asm: "jmp next", fix: fixRel32, to: "next"},

		{label: "entry"},
		kind,
		{code: "0f85", asm: "jne step", fix: fixRel32, to: "step"},
		{code: "4889f9", asm: "movq %rdi, %rcx"},         // handle
		{code: "488b5310", asm: "movq 0x10(%rbx), %rdx"}, // address
		{code: "4c8b4318", asm: "movq 0x18(%rbx), %r8"},  // name
		{code: "4d89c1", asm: "movq %r8, %r9"},           // name on the device
		{code: "488b4320", asm: "movq 0x20(%rbx), %rax"}, // size
		{code: "4885c0", asm: "testq %rax, %rax"},
		{code: "75", asm: "jne variable", fix: fixRel8, to: "variable"},

		// Function(handle, address, name, name, -1, 0, 0, 0, 0, 0)
		{code: "c7442420ffffffff", asm: "movl $0xffffffff, 0x20(%rsp)"},
		{code: "4889442428", asm: "movq %rax, 0x28(%rsp)"},
		{code: "4889442430", asm: "movq %rax, 0x30(%rsp)"},
		{code: "4889442438", asm: "movq %rax, 0x38(%rsp)"},
		{code: "4889442440", asm: "movq %rax, 0x40(%rsp)"},
		{code: "4889442448", asm: "movq %rax, 0x48(%rsp)"},
		{code: "e8", asm: "callq RegisterFunction", fix: fixCOFF32, to: k.function("RegisterFunction")},
		{code: "e9", asm: "jmp step", fix: fixRel32, to: "step"},

		{label: "variable"},
		{code: "4889442428", asm: "movq %rax, 0x28(%rsp)"},
		{code: "448b530c", asm: "movl 0xc(%rbx), %r10d"}, // flags
		{code: "4589d3", asm: "movl %r10d, %r11d"},
		{code: "41c1eb03", asm: "shrl $0x3, %r11d"},
		{code: "4183e301", asm: "andl $0x1, %r11d"}, // extern
		{code: "4489d0", asm: "movl %r10d, %eax"},
		{code: "83e007", asm: "andl $0x7, %eax"}, // type
		{code: "75", asm: "jne managed", fix: fixRel8, to: "managed"},

		// Var(handle, address, name, name, extern, size, constant, 0)
		{code: "44895c2420", asm: "movl %r11d, 0x20(%rsp)"},
		{code: "41c1ea04", asm: "shrl $0x4, %r10d"},
		{code: "4183e201", asm: "andl $0x1, %r10d"},
		{code: "4489542430", asm: "movl %r10d, 0x30(%rsp)"},
		{code: "c744243800000000", asm: "movl $0x0, 0x38(%rsp)"},
		{code: "e8", asm: "callq RegisterVar", fix: fixCOFF32, to: k.function("RegisterVar")},
		{code: "e9", asm: "jmp step", fix: fixRel32, to: "step"},

		// ManagedVar(handle, auxiliary address, address, name, size, data)
		{label: "managed"},
		{code: "83f801", asm: "cmpl $0x1, %eax"},
		{code: "0f85", asm: "jne " + notManaged, fix: fixRel32, to: notManaged},
		{code: "4989d0", asm: "movq %rdx, %r8"},
		{code: "488b5330", asm: "movq 0x30(%rbx), %rdx"},
		{code: "488b442428", asm: "movq 0x28(%rsp), %rax"},
		{code: "4889442420", asm: "movq %rax, 0x20(%rsp)"},
		{code: "8b4328", asm: "movl 0x28(%rbx), %eax"},
		{code: "89442428", asm: "movl %eax, 0x28(%rsp)"},
		{code: "e8", asm: "callq RegisterManagedVar", fix: fixCOFF32, to: k.function("RegisterManagedVar")},
	}
	handles := []instr{
		{code: "e9", asm: "jmp step", fix: fixRel32, to: "step"},

		// Surface(handle, address, name, name, data, extern)
		{label: "surface"},
		{code: "83f802", asm: "cmpl $0x2, %eax"},
		{code: "75", asm: "jne texture", fix: fixRel8, to: "texture"},
		{code: "8b4328", asm: "movl 0x28(%rbx), %eax"},
		{code: "89442420", asm: "movl %eax, 0x20(%rsp)"},
		{code: "44895c2428", asm: "movl %r11d, 0x28(%rsp)"},
		{code: "e8", asm: "callq RegisterSurface", fix: fixCOFF32, to: k.function("RegisterSurface")},
		{code: "e9", asm: "jmp step", fix: fixRel32, to: "step"},

		// Texture(handle, address, name, name, data, normalized, extern)
		{label: "texture"},
		{code: "83f803", asm: "cmpl $0x3, %eax"},
		{code: "75", asm: "jne step", fix: fixRel8, to: "step"},
		{code: "8b4328", asm: "movl 0x28(%rbx), %eax"},
		{code: "89442420", asm: "movl %eax, 0x20(%rsp)"},
		{code: "41c1ea05", asm: "shrl $0x5, %r10d"},
		{code: "4183e201", asm: "andl $0x1, %r10d"},
		{code: "4489542428", asm: "movl %r10d, 0x28(%rsp)"},
		{code: "44895c2430", asm: "movl %r11d, 0x30(%rsp)"},
		{code: "e8", asm: "callq RegisterTexture", fix: fixCOFF32, to: k.function("RegisterTexture")},
	}
	if k == CUDA {
		handles = nil
	}
	tail := []instr{
		{label: "step"},
		{code: "4883c338", asm: "addq $0x38, %rbx"},
		{label: "next"},
		{code: "4839f3", asm: "cmpq %rsi, %rbx"},
		{code: "0f85", asm: "jne entry", fix: fixRel32, to: "entry"},
		{code: "4883c450", asm: "addq $0x50, %rsp"},
		{code: "5b", asm: "popq %rbx"},
		{code: "5f", asm: "popq %rdi"},
		{code: "5e", asm: "popq %rsi"},
		{code: "c3", asm: "retq"},
	}
	return slices.Concat(head, handles, tail)
}

// exceptions are .pdata and .xdata, which tell of functions for Windows what
// .eh_frame tells elsewhere.
type exceptions struct {
	data   []byte // of .xdata
	starts []uint32
}

// add describes a function.
func (e *exceptions) add(list []instr) {
	const version = 1
	var codes []byte
	at, prologue := 0, 0
	for i := range list {
		if at += list[i].size(); list[i].cfi != "" {
			codes = append([]byte{byte(at), mustHex(list[i].cfi)[0]}, codes...) // the last one first
			prologue = at
		}
	}
	e.starts = append(e.starts, uint32(len(e.data)))
	e.data = append(e.data, version, byte(prologue), byte(len(codes)/2), 0)
	e.data = append(e.data, codes...)
	for len(e.data)%4 != 0 {
		e.data = append(e.data, 0)
	}
}

// tables adds .pdata and .xdata for the functions at the symbols.
func (e *exceptions) tables(m *module, section object.SectionID, list []function, starts, sizes []int) {
	text := m.local(".text.startup", section, 0, 0, object.TypeNone)
	described := m.Section(object.BuilderSection{Name: ".xdata", Type: object.ShtProgbits, Flags: object.ShfAlloc, Align: 4, Content: files.Memory(e.data)})
	xdata := m.local(".xdata", described, 0, 0, object.TypeNone)
	const record = 12
	data := make([]byte, record*len(list))
	for i := range list {
		binary.LittleEndian.PutUint32(data[record*i:], uint32(starts[i]))
		binary.LittleEndian.PutUint32(data[record*i+4:], uint32(starts[i]+sizes[i]))
		binary.LittleEndian.PutUint32(data[record*i+8:], e.starts[i])
	}
	pdata := m.Section(object.BuilderSection{Name: ".pdata", Type: object.ShtProgbits, Flags: object.ShfAlloc, Align: 4, Content: files.Memory(data)})
	for i := range list {
		m.Relocate(pdata, uint64(record*i), object.COFFAddr32, text, 0)
		m.Relocate(pdata, uint64(record*i+4), object.COFFAddr32, text, 0)
		m.Relocate(pdata, uint64(record*i+8), object.COFFAddr32, xdata, 0)
	}
}
