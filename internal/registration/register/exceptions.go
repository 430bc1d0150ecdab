package register

import (
	"encoding/binary"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// exceptions adds .pdata and .xdata, which describe stack frames to Windows as .eh_frame does
// elsewhere. The functions begin at starts in section.
func (m *module) exceptions(section object.SectionID, list []function, starts []int) {
	const record = 12 // of .pdata: start, end, offset in .xdata
	var frames []byte
	data := make([]byte, record*len(list))
	for i, f := range list {
		binary.LittleEndian.PutUint32(data[record*i:], uint32(starts[i]))
		binary.LittleEndian.PutUint32(data[record*i+4:], uint32(starts[i]+len(f.code.text)))
		binary.LittleEndian.PutUint32(data[record*i+8:], uint32(len(frames)))
		frames = append(frames, f.code.unwind...)
	}
	text := m.local(".text.startup", section, 0, 0, elf.TypeNone)
	described := m.Section(object.BuilderSection{Name: ".xdata", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 4, Content: content.Memory(frames)})
	xdata := m.local(".xdata", described, 0, 0, elf.TypeNone)
	pdata := m.Section(object.BuilderSection{Name: ".pdata", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 4, Content: content.Memory(data)})
	for i := range list {
		m.Relocate(pdata, uint64(record*i), object.COFFAddr32, text, 0)
		m.Relocate(pdata, uint64(record*i+4), object.COFFAddr32, text, 0)
		m.Relocate(pdata, uint64(record*i+8), object.COFFAddr32, xdata, 0)
	}
}
