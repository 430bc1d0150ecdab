package register

import "encoding/binary"

// instr is one line of an assembler listing: a label, or an instruction.
type instr struct {
	label string // if set, the rest is not
	code  string // the bytes in hex, as objdump prints them
	asm   string // the same in assembler
	fix   fix    // what the linker or a branch fills in
	to    string // the symbol or label that fix refers to
	cfi   string // what changes in the stack frame behind it, DWARF instructions in hex
}

// fix is a place in an instruction that depends on where something lies.
type fix uint8

const (
	fixNone fix = iota

	// x86-64: bytes that follow code.
	fixRel8  // one, the distance to a label from behind it
	fixRel32 // four, the same
	fixPC32  // four, the same to a symbol: R_X86_64_PC32
	fixPLT32 // four, the same to a function: R_X86_64_PLT32
	// The same to a symbol or function, in COFF: IMAGE_REL_AMD64_REL32.
	fixCOFF32

	// AArch64: bits of the word.
	fixImm19 // 5 to 23, the distance to a label in words: b.cond, cbnz
	fixImm26 // 0 to 25, the same: b
	fixPage  // adrp: R_AARCH64_ADR_PREL_PG_HI21
	fixAdd   // add: R_AARCH64_ADD_ABS_LO12_NC
	fixLdSt  // ldr, str of 8 bytes: R_AARCH64_LDST64_ABS_LO12_NC
	fixCall  // bl to a function: R_AARCH64_CALL26
	fixJump  // b to a function: R_AARCH64_JUMP26
)

// relocations are the types of relocation for fixes that the linker fills in,
// and what is added to the symbol.
var relocations = map[fix]struct {
	typ    uint32
	addend int64
}{
	fixPC32:   {2, -4},
	fixPLT32:  {4, -4},
	fixCOFF32: {4, 0},
	fixPage:   {275, 0},
	fixAdd:    {277, 0},
	fixJump:   {282, 0},
	fixCall:   {283, 0},
	fixLdSt:   {286, 0},
}

// reloc is a place in code that the linker fills in.
type reloc struct {
	offset uint64
	typ    uint32
	symbol string
	addend int64
}

// size returns the length of the instruction in bytes.
func (i *instr) size() int {
	n := len(i.code) / 2
	switch i.fix {
	case fixRel8:
		n++
	case fixRel32, fixPC32, fixPLT32, fixCOFF32:
		n += 4
	}
	return n
}

// assemble returns the code of a function and its relocations. words tells that
// code is in words, which are stored with the least byte first.
func assemble(list []instr, words bool) ([]byte, []reloc) {
	labels := map[string]int{}
	at := 0
	for i := range list {
		if list[i].label != "" {
			labels[list[i].label] = at
		}
		at += list[i].size()
	}
	var code []byte
	var relocs []reloc
	for i := range list {
		in := &list[i]
		start := len(code)
		raw := mustHex(in.code)
		code = append(code, raw...)
		operand := len(code) // of x86-64
		code = append(code, make([]byte, in.size()-len(raw))...)
		if words && len(raw) == 4 {
			binary.LittleEndian.PutUint32(code[start:], binary.BigEndian.Uint32(raw))
			operand = start
		}
		switch distance := labels[in.to] - len(code); in.fix {
		case fixNone:
		case fixRel8:
			code[operand] = byte(distance)
		case fixRel32:
			binary.LittleEndian.PutUint32(code[operand:], uint32(distance))
		case fixImm19:
			insert(code[start:], (labels[in.to]-start)/4, 19, 5)
		case fixImm26:
			insert(code[start:], (labels[in.to]-start)/4, 26, 0)
		default:
			r := relocations[in.fix]
			relocs = append(relocs, reloc{uint64(operand), r.typ, in.to, r.addend})
		}
	}
	return code, relocs
}

// insert puts the low bits of v into a word, from bit at on.
func insert(word []byte, v, bits, at int) {
	w := binary.LittleEndian.Uint32(word)
	w |= uint32(v) & (1<<bits - 1) << at
	binary.LittleEndian.PutUint32(word, w)
}
