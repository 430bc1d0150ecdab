package register

import "encoding/binary"

// unwinding is an .eh_frame section to which functions are added, so that
// debuggers and runtimes can unwind the constructor.
type unwinding struct {
	common string // the content of the common record
	prel32 uint32 // the relocation of a function's address
	data   []byte
	relocs []reloc
}

// add describes the function with symbol name.
func (u *unwinding) add(name string, f *code) {
	if u.data == nil {
		u.record([]byte(u.common))
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(u.data)+4)) // back to the common record at 0
	u.relocs = append(u.relocs, reloc{uint64(len(u.data) + 8), u.prel32, name, 0})
	body = append(body, 0, 0, 0, 0)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(f.text)))
	body = append(body, 0) // no augmentation
	u.record(append(body, f.unwind...))
}

// record appends a record, filled with DW_CFA_nop.
func (u *unwinding) record(body []byte) {
	for len(body)%8 != 4 {
		body = append(body, 0)
	}
	u.data = binary.LittleEndian.AppendUint32(u.data, uint32(len(body)))
	u.data = append(u.data, body...)
}
