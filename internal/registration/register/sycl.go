package register

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// Layout of the image records and of the descriptor of SYCL up to LLVM 22.
const (
	syclImageVersion      = 3
	syclDescriptorVersion = 1
	syclImageSize         = 80
	syclDescriptorSize    = 32
)

// entrySize is the size of an offload entry in bytes.
const entrySize = 56

// sycl adds the images and the argument of __sycl_register_lib.
func (m *module) sycl(r *Registration) error {
	var descriptor object.SymbolID
	if r.Package {
		image := r.Images[0].Content
		symbol := m.local(".sycl_offloading.binary", m.offloading(image), 0, uint64(image.Len()), elf.TypeObject)
		record := make([]byte, 16)
		binary.LittleEndian.PutUint64(record[8:], uint64(image.Len()))
		data := m.constants(record)
		m.Relocate(data, 0, m.machine.abs64, symbol, 0)
		descriptor = m.local(".sycl_offloading.descriptor", data, 0, uint64(len(record)), elf.TypeObject)
	} else {
		var err error
		if descriptor, err = m.syclDescriptor(r.Images); err != nil {
			return err
		}
	}
	code := m.machine.code.of(r)
	m.functionsAt(scope{"descriptor": descriptor}, 1, true, []function{
		{"register", "sycl.descriptor_reg", code.register},
		{"unregister", "sycl.descriptor_unreg", code.unregister},
	})
	return nil
}

// offloading adds an image in a section that tools list.
func (m *module) offloading(image content.Content) object.SectionID {
	return m.Section(object.BuilderSection{
		Name: embedding.OffloadSection, Type: elf.ShtOffloading, Flags: m.machine.imageFlags(image.Len()), Align: offloadingAlign, Content: image,
	})
}

// constants adds constant data with pointers.
func (m *module) constants(data []byte) object.SectionID {
	name, flags := m.machine.constants()
	return m.Section(object.BuilderSection{Name: name, Type: elf.ShtProgbits, Flags: flags, Align: 16, Content: content.Memory(data)})
}

// texts are NUL-terminated strings.
type texts struct {
	data []byte
	at   map[string]uint64 // the offsets of strings added with addOnce
	once []string          // in the order of data
}

// add appends a string and returns its offset.
func (t *texts) add(s string) uint64 {
	at := uint64(len(t.data))
	t.data = append(append(t.data, s...), 0)
	return at
}

// addOnce returns the offset of a string. It appends the string on the first
// call.
func (t *texts) addOnce(s string) uint64 {
	at, ok := t.at[s]
	if !ok {
		if t.at == nil {
			t.at = map[string]uint64{}
		}
		at = t.add(s)
		t.at[s] = at
		t.once = append(t.once, s)
	}
	return at
}

// syclDescriptor adds the images with a record of each: its target, its content
// and its entries, which are its symbols.
func (m *module) syclDescriptor(images []Image) (object.SymbolID, error) {
	if len(images) > 0xffff {
		return 0, fmt.Errorf("%d images, expected at most %d", len(images), 0xffff)
	}
	var strs, names texts
	options := strs.add("")
	triples := make([]uint64, len(images))
	var data []byte
	for i := range images {
		if strings.ContainsRune(images[i].Triple, 0) {
			return 0, fmt.Errorf("image %d of %d: triple %q contains a NUL", i+1, len(images), images[i].Triple)
		}
		triples[i] = strs.add(images[i].Triple)
		for _, symbol := range images[i].Symbols {
			names.addOnce(symbol)
			data = append(data, syclEntry()...)
		}
	}
	records := uint64(len(data))
	descriptor := records + uint64(syclImageSize*len(images))
	data = append(data, syclRecords(images)...)

	rodata := m.local(".sycl_offloading.texts", m.Section(object.BuilderSection{
		Name: m.machine.readOnly(), Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 1, Content: content.Memory(strs.data),
	}), 0, uint64(len(strs.data)), elf.TypeObject)
	var nameTexts object.SymbolID
	if len(names.data) > 0 {
		nameTexts = m.local(".offloading.entry_name", m.Section(object.BuilderSection{
			Name: ".llvm.rodata.offloading", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 1, Content: content.Memory(names.data),
		}), 0, uint64(len(names.data)), elf.TypeObject)
	}
	contents := make([]object.SymbolID, len(images))
	for i := range images {
		c := images[i].Content
		contents[i] = m.local(fmt.Sprintf(".sycl_offloading.%d.data", i), m.offloading(c), 0, uint64(c.Len()), elf.TypeObject)
	}
	section := m.constants(data)
	array := m.local(".sycl_offloading.device_images", section, records, uint64(syclImageSize*len(images)), elf.TypeObject)
	entries := m.local(".sycl_offloading.entries_arr", section, 0, records, elf.TypeObject)

	pointer := func(at uint64, to object.SymbolID, addend uint64) {
		m.Relocate(section, at, m.machine.abs64, to, int64(addend))
	}
	at := uint64(0)
	for i := range images {
		for _, symbol := range images[i].Symbols {
			pointer(at+24, nameTexts, names.addOnce(symbol))
			at += entrySize
		}
	}
	end := uint64(0)
	for i := range images {
		at, start := records+uint64(syclImageSize*i), end
		end += uint64(entrySize * len(images[i].Symbols))
		pointer(at+8, rodata, triples[i])
		pointer(at+16, rodata, options)
		pointer(at+24, rodata, options)
		pointer(at+32, contents[i], 0)
		pointer(at+40, contents[i], uint64(images[i].Content.Len()))
		pointer(at+48, entries, start)
		pointer(at+56, entries, end)
	}
	pointer(descriptor+8, array, 0)
	m.syclEntries(&names, nameTexts)
	return m.local(".sycl_offloading.descriptor", section, descriptor, syclDescriptorSize, elf.TypeObject), nil
}

// syclRecords returns the records of images and the descriptor, without their pointers.
func syclRecords(images []Image) []byte {
	le := binary.LittleEndian
	data := make([]byte, syclImageSize*len(images)+syclDescriptorSize)
	for i := range images {
		record := data[syclImageSize*i:]
		le.PutUint16(record, syclImageVersion)
		record[2] = 8 // the offload kind
		record[3] = images[i].ImageKind
	}
	descriptor := data[syclImageSize*len(images):]
	le.PutUint16(descriptor, syclDescriptorVersion)
	le.PutUint16(descriptor[2:], uint16(len(images)))
	return data
}

// syclEntry returns an offload entry of SYCL without its name: version 1, kind 8.
func syclEntry() []byte {
	entry := make([]byte, entrySize)
	entry[8], entry[10] = 1, 8
	return entry
}

// syclEntries adds the symbols of images to the offload entries of the program,
// as the compiler does with its kernels. names is the symbol of their texts.
func (m *module) syclEntries(symbols *texts, names object.SymbolID) {
	if len(symbols.once) == 0 {
		return
	}
	data := make([]byte, 0, entrySize*len(symbols.once))
	for range symbols.once {
		data = append(data, syclEntry()...)
	}
	name := m.entries
	if m.machine.coff {
		name += "$OE"
	}
	section := m.Section(object.BuilderSection{
		Name: name, Type: elf.ShtProgbits, Flags: elf.ShfAlloc | m.entryFlags, Align: 8, Content: content.Memory(data),
	})
	for i, symbol := range symbols.once {
		offset := uint64(entrySize * i)
		m.Relocate(section, offset+24, m.machine.abs64, names, int64(symbols.at[symbol]))
		m.weak(embedding.EntryPrefix+symbol, section, offset, entrySize)
	}
}
