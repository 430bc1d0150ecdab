package register

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
)

// Layout of SYCL's descriptor up to LLVM 22: of the record of an image and of
// the descriptor.
const (
	syclImageVersion      = 3
	syclDescriptorVersion = 1
	syclImageSize         = 80
	syclDescriptorSize    = 32
)

// entrySize is the size of an offload entry in bytes.
const entrySize = 56

// sycl adds the images, and what __sycl_register_lib is given of them.
func (m *module) sycl(r *Registration) error {
	var descriptor object.SymbolID
	if r.Package {
		image := r.Images[0].Content
		symbol := m.local(".sycl_offloading.binary", m.offloading(image), 0, uint64(image.Len()), object.TypeObject)
		record := make([]byte, 16)
		binary.LittleEndian.PutUint64(record[8:], uint64(image.Len()))
		data := m.constants(record)
		m.Relocate(data, 0, m.machine.abs64, symbol, 0)
		descriptor = m.local(".sycl_offloading.descriptor", data, 0, uint64(len(record)), object.TypeObject)
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

// offloading adds the section of an image that tools list.
func (m *module) offloading(image files.Content) object.SectionID {
	return m.Section(object.BuilderSection{
		Name: offloadingSection, Type: object.ShtOffloading, Flags: m.machine.imageFlags(image.Len()), Align: offloadingAlign, Content: image,
	})
}

// constants adds data with pointers that nobody writes.
func (m *module) constants(data []byte) object.SectionID {
	return m.Section(object.BuilderSection{
		Name: m.machine.constants(), Type: object.ShtProgbits, Flags: m.machine.constantFlags(), Align: 16, Content: files.Memory(data),
	})
}

// syclDescriptor adds the images with a record of each: its target, its content
// and its entries, which are its symbols.
func (m *module) syclDescriptor(images []Image) (object.SymbolID, error) {
	if len(images) > 0xffff {
		return 0, fmt.Errorf("%d images, expected at most %d", len(images), 0xffff)
	}
	// Texts first: the triples, two empty strings of options, the names.
	var texts []byte
	text := func(s string) uint64 {
		at := len(texts)
		texts = append(append(texts, s...), 0)
		return uint64(at)
	}
	type pointer struct {
		at     uint64
		to     object.SymbolID
		addend int64
	}
	options := text("")
	triples := make([]uint64, len(images))
	for i := range images {
		if strings.ContainsRune(images[i].Triple, 0) {
			return 0, fmt.Errorf("image %d of %d: a NUL in triple %q", i+1, len(images), images[i].Triple)
		}
		triples[i] = text(images[i].Triple)
	}
	var data []byte
	var pointers []pointer
	var names []byte
	type named struct{ start, size uint64 }
	entries := make([]named, len(images))
	all := map[string]uint64{}
	var order []string
	for i := range images {
		entries[i].start = uint64(len(data))
		for _, symbol := range images[i].Symbols {
			if _, ok := all[symbol]; !ok {
				all[symbol] = uint64(len(names))
				order = append(order, symbol)
				names = append(append(names, symbol...), 0)
			}
			data = append(data, syclEntry()...)
		}
		entries[i].size = uint64(len(data)) - entries[i].start
	}
	records := uint64(len(data))
	data = append(data, make([]byte, syclImageSize*len(images)+syclDescriptorSize)...)
	descriptor := records + uint64(syclImageSize*len(images))

	rodata := m.local(".sycl_offloading.texts", m.Section(object.BuilderSection{
		Name: m.machine.readOnly(), Type: object.ShtProgbits, Flags: object.ShfAlloc, Align: 1, Content: files.Memory(texts),
	}), 0, uint64(len(texts)), object.TypeObject)
	var nameTexts object.SymbolID
	if len(names) > 0 {
		nameTexts = m.local(".offloading.entry_name", m.Section(object.BuilderSection{
			Name: ".llvm.rodata.offloading", Type: object.ShtProgbits, Flags: object.ShfAlloc, Align: 1, Content: files.Memory(names),
		}), 0, uint64(len(names)), object.TypeObject)
	}
	contents := make([]object.SymbolID, len(images))
	for i := range images {
		c := images[i].Content
		contents[i] = m.local(fmt.Sprintf(".sycl_offloading.%d.data", i), m.offloading(c), 0, uint64(c.Len()), object.TypeObject)
	}
	for i := range images {
		for n, symbol := range images[i].Symbols {
			pointers = append(pointers, pointer{entries[i].start + uint64(entrySize*n) + 24, nameTexts, int64(all[symbol])})
		}
	}
	section := m.Section(object.BuilderSection{
		Name: m.machine.constants(), Type: object.ShtProgbits, Flags: m.machine.constantFlags(), Align: 16, Content: files.Memory(data),
	})
	array := m.local(".sycl_offloading.device_images", section, records, uint64(syclImageSize*len(images)), object.TypeObject)
	entryArray := m.local(".sycl_offloading.entries_arr", section, 0, records, object.TypeObject)
	le := binary.LittleEndian
	for i := range images {
		at := records + uint64(syclImageSize*i)
		le.PutUint16(data[at:], syclImageVersion)
		data[at+2] = 8 // the offload kind
		data[at+3] = images[i].ImageKind
		pointers = append(pointers,
			pointer{at + 8, rodata, int64(triples[i])},
			pointer{at + 16, rodata, int64(options)},
			pointer{at + 24, rodata, int64(options)},
			pointer{at + 32, contents[i], 0},
			pointer{at + 40, contents[i], images[i].Content.Len()},
			pointer{at + 48, entryArray, int64(entries[i].start)},
			pointer{at + 56, entryArray, int64(entries[i].start + entries[i].size)},
		)
	}
	le.PutUint16(data[descriptor:], syclDescriptorVersion)
	le.PutUint16(data[descriptor+2:], uint16(len(images)))
	pointers = append(pointers, pointer{descriptor + 8, array, 0})
	for _, p := range pointers {
		m.Relocate(section, p.at, m.machine.abs64, p.to, p.addend)
	}
	m.syclEntries(order, all, nameTexts)
	return m.local(".sycl_offloading.descriptor", section, descriptor, syclDescriptorSize, object.TypeObject), nil
}

// syclEntry returns an offload entry of SYCL without its name: version 1, kind 8.
func syclEntry() []byte {
	entry := make([]byte, entrySize)
	entry[8], entry[10] = 1, 8
	return entry
}

// syclEntries adds the symbols of images to the offload entries of the program,
// as the compiler does with its kernels.
func (m *module) syclEntries(symbols []string, at map[string]uint64, names object.SymbolID) {
	if len(symbols) == 0 {
		return
	}
	data := make([]byte, 0, entrySize*len(symbols))
	for range symbols {
		data = append(data, syclEntry()...)
	}
	name := m.entries
	if m.machine.coff {
		name += "$OE"
	}
	section := m.Section(object.BuilderSection{
		Name: name, Type: object.ShtProgbits, Flags: object.ShfAlloc | m.entryFlags, Align: 8, Content: files.Memory(data),
	})
	for i, symbol := range symbols {
		offset := uint64(entrySize * i)
		m.Relocate(section, offset+24, m.machine.abs64, names, int64(at[symbol]))
		m.weak(entrySymbol+symbol, section, offset, entrySize)
	}
}

// entrySymbol is how the names of the symbols of offload entries begin.
const entrySymbol = ".offloading.entry."
