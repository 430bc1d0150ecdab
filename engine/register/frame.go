package register

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// frame is what .eh_frame says of all functions of a machine.
type frame struct {
	codeAlign     byte   // what advances of the location count, in bytes
	returnAddress byte   // DWARF register
	start         string // the frame at the start of a function, DWARF instructions in hex
	prel32        uint32 // relocation of a function's address
}

// unwinding is a section .eh_frame that grows by functions, so that debuggers
// and runtimes see through the constructor.
type unwinding struct {
	frame  *frame
	data   []byte
	relocs []reloc
}

const (
	cfaAdvance  = 0x40 // DW_CFA_advance_loc
	cfaAdvance1 = 0x02 // DW_CFA_advance_loc1
	pcrelSdata4 = 0x1b // DW_EH_PE_pcrel | DW_EH_PE_sdata4
)

// add describes a function of which name is the symbol.
func (u *unwinding) add(name string, list []instr) {
	if u.data == nil {
		common := []byte{0, 0, 0, 0, 1, 'z', 'R', 0, u.frame.codeAlign, 0x78, u.frame.returnAddress, 1, pcrelSdata4}
		u.record(append(common, mustHex(u.frame.start)...))
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(u.data)+4)) // back to the common part at 0
	u.relocs = append(u.relocs, reloc{uint64(len(u.data) + 8), u.frame.prel32, name, 0})
	body = append(body, 0, 0, 0, 0)
	var rules []byte
	at, last := 0, 0
	for i := range list {
		at += list[i].size()
		if list[i].cfi == "" {
			continue
		}
		step := (at - last) / int(u.frame.codeAlign)
		if step < cfaAdvance {
			rules = append(rules, cfaAdvance|byte(step))
		} else {
			rules = append(rules, cfaAdvance1, byte(step))
		}
		rules = append(rules, mustHex(list[i].cfi)...)
		last = at
	}
	body = binary.LittleEndian.AppendUint32(body, uint32(at))
	body = append(body, 0) // no augmentation
	u.record(append(body, rules...))
}

// record appends a record, filled with DW_CFA_nop.
func (u *unwinding) record(body []byte) {
	for len(body)%8 != 4 {
		body = append(body, 0)
	}
	u.data = binary.LittleEndian.AppendUint32(u.data, uint32(len(body)))
	u.data = append(u.data, body...)
}

// mustHex decodes hex digits of this package's tables, which may have spaces.
func mustHex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic("register: a table has " + s + ": " + err.Error())
	}
	return b
}
