package register

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// Alignment of images.
const (
	offloadingAlign = 8
	hipAlign        = 4096 // the runtime maps code objects in place
	cudaAlign       = 16
)

// largeImage is the size in bytes from which images are marked as large. Only
// pointers refer to images, so they may be at any address. On x86-64, code
// reaches 2 GiB; a program with more than that between its code and its data
// links only if the linker may place the image elsewhere.
const largeImage = 1 << 30

// imageFlags returns the flags of the section of an image.
func (m *machine) imageFlags(size int64) uint64 {
	if size >= largeImage {
		return elf.ShfAlloc | m.large
	}
	return elf.ShfAlloc
}

// alignOf returns the alignment of the fat binary of a runtime.
func alignOf(r *runtimes.Runtime) uint64 {
	if r.Mapped {
		return hipAlign
	}
	return cudaAlign
}

// module is an object that is being built.
type module struct {
	builder
	machine     *machine
	entries     string // the section of the offload entries
	entryFlags  uint64 // of that section, in addition to allocation
	relocatable bool
	keep        []object.SymbolID // symbols that every constructor keeps
	outside     map[string]object.SymbolID
	unwinding   unwinding
	unwound     []scope // of the relocations of unwinding
	images      int     // of OpenMP so far
}

// builder builds an object of one format.
type builder interface {
	Section(object.BuilderSection) object.SectionID
	Symbol(object.BuilderSymbol) object.SymbolID
	Relocate(section object.SectionID, offset uint64, typ uint32, symbol object.SymbolID, addend int64)
	Write(content.Sink) error
}

// scope maps the names in code to symbols.
type scope map[string]object.SymbolID

func newModule(o *Object) (*module, error) {
	entries := o.Entries
	if entries == "" {
		entries = embedding.EntriesSection
	}
	if !identifier(entries) {
		return nil, fmt.Errorf("section %q for offload entries: linkers define its start and end only if it is a C identifier", entries)
	}
	m, err := newBare(o.Machine, o.COFF)
	if err != nil {
		return nil, err
	}
	m.entries, m.relocatable = entries, o.Relocatable
	bounded := slices.ContainsFunc(o.Registrations, func(r Registration) bool {
		runtime := runtimes.Of(r.Kind)
		return runtime == nil || !runtime.NoEntries
	})
	if o.COFF {
		if o.Relocatable {
			return nil, errors.New("relocatable registration requires ELF, found COFF")
		}
		if !bounded {
			return m, nil
		}
		// Linkers drop a section if all of its pieces are empty, and with it the
		// bounds.
		m.Section(object.BuilderSection{Name: entries + "$A", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory(make([]byte, 8))})
		for _, bound := range []struct{ name, section string }{{"start", "$OA"}, {"stop", "$OZ"}} {
			empty := m.Section(object.BuilderSection{Name: entries + bound.section, Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 8})
			m.outside[bound.name] = m.weak("__"+bound.name+"_"+entries, empty, 0, 0)
		}
		return m, nil
	}
	// Without it, bfd uses the name of the object, which may be temporary.
	m.Symbol(object.BuilderSymbol{Name: "offload.wrapper.module", Section: object.SectionAbs, Bind: elf.BindLocal, Type: elf.TypeFile})
	m.entryFlags = elf.ShfWrite
	if !o.Relocatable { // bfd would not merge the section with those of other objects
		m.entryFlags |= elf.ShfRetain
	}
	if !bounded {
		return m, nil
	}
	empty := m.Section(object.BuilderSection{Name: entries, Type: elf.ShtProgbits, Flags: elf.ShfAlloc | m.entryFlags, Align: 8})
	m.keep = append(m.keep, m.local("__dummy."+entries, empty, 0, 0, elf.TypeObject))
	for _, bound := range []string{"start", "stop"} {
		m.outside[bound] = m.Symbol(object.BuilderSymbol{Name: "__" + bound + "_" + entries, Bind: elf.BindGlobal, Visibility: elf.VisHidden})
	}
	for _, name := range o.Define {
		m.define(name, empty, 0)
	}
	for _, name := range o.Keep {
		m.keep = append(m.keep, m.Symbol(object.BuilderSymbol{Name: name, Bind: elf.BindWeak, Visibility: elf.VisHidden}))
	}
	return m, nil
}

// weak defines a symbol that other objects may also define.
func (m *module) weak(name string, section object.SectionID, value, size uint64) object.SymbolID {
	if coff, ok := m.builder.(*object.COFFBuilder); ok {
		fallback := m.Symbol(object.BuilderSymbol{Name: ".weak." + name + ".default", Section: section, Value: value, Bind: elf.BindGlobal})
		return coff.WeakSymbol(name, fallback)
	}
	return m.Symbol(object.BuilderSymbol{Name: name, Section: section, Value: value, Size: size, Bind: elf.BindWeak, Type: elf.TypeObject})
}

// identifier reports whether s is an identifier of C.
func identifier(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z' || s[i] == '_' || i > 0 && s[i] >= '0' && s[i] <= '9') {
			return false
		}
	}
	return s != ""
}

func (m *module) local(name string, section object.SectionID, value, size uint64, typ byte) object.SymbolID {
	return m.Symbol(object.BuilderSymbol{Name: name, Section: section, Value: value, Size: size, Bind: elf.BindLocal, Type: typ})
}

// register adds the content for r.
func (m *module) register(r *Registration) error {
	if err := r.check(); err != nil {
		return err
	}
	switch runtime := runtimes.Of(r.Kind); runtime.Form {
	case runtimes.Images:
		m.openMP(r)
	case runtimes.OffloadBinary:
		return m.sycl(r)
	default:
		m.fatBinary(r, runtime)
	}
	return nil
}

// openMP adds the images, an array with the start and end of each device image
// and of the offload entries, and the descriptor that points to the array.
func (m *module) openMP(r *Registration) {
	section := object.BuilderSection{Name: embedding.OffloadSection, Type: elf.ShtOffloading, Align: offloadingAlign}
	if m.relocatable {
		section.Name, section.Type = embedding.RelocatableSection, elf.ShtProgbits
	}
	type device struct {
		image object.SymbolID
		Range
	}
	var devices []device
	for _, img := range r.Images {
		section.Content, section.Flags = img.Content, m.machine.imageFlags(img.Content.Len())
		name := ".omp_offloading.device_image"
		if m.images > 0 {
			name = fmt.Sprintf("%s.%d", name, m.images)
		}
		m.images++
		symbol := m.local(name, m.Section(section), 0, uint64(img.Content.Len()), elf.TypeObject)
		if img.Devices == nil {
			devices = append(devices, device{symbol, Range{0, img.Content.Len()}})
		}
		for _, d := range img.Devices {
			devices = append(devices, device{symbol, d})
		}
	}

	const record = 32 // both of the array and of the descriptor
	count := uint64(len(devices))
	data := make([]byte, record*(count+1))
	binary.LittleEndian.PutUint32(data[record*count:], uint32(count))
	constants := m.constants(data)
	array := m.local(".omp_offloading.device_images", constants, 0, record*count, elf.TypeObject)
	descriptor := m.local(".omp_offloading.descriptor", constants, record*count, record, elf.TypeObject)
	pointer := func(at uint64, to object.SymbolID, addend int64) {
		m.Relocate(constants, at, m.machine.abs64, to, addend)
	}
	for i, d := range devices {
		at := record * uint64(i)
		pointer(at, d.image, d.Offset)
		pointer(at+8, d.image, d.Offset+d.Size)
		pointer(at+16, m.outside["start"], 0)
		pointer(at+24, m.outside["stop"], 0)
	}
	pointer(record*count+8, array, 0)
	pointer(record*count+16, m.outside["start"], 0)
	pointer(record*count+24, m.outside["stop"], 0)

	code := m.machine.code.of(r)
	m.functions(scope{"descriptor": descriptor}, []function{
		{"register", ".omp_offloading.descriptor_reg", code.register},
		{"unregister", ".omp_offloading.descriptor_unreg", code.unregister},
	})
}

// fatBinary adds the fat binary, the wrapper that points to it, and a variable
// for the handle that the runtime returns.
func (m *module) fatBinary(r *Registration, n *runtimes.Runtime) {
	img := r.Images[0]
	image := m.local(".fatbin_image", m.Section(object.BuilderSection{
		Name: n.Sections.Image, Type: elf.ShtProgbits, Flags: m.machine.imageFlags(img.size()), Align: alignOf(n), Content: img.Content, Parts: img.Parts,
	}), 0, uint64(img.size()), elf.TypeObject)

	const version = 1
	wrapper := make([]byte, 24)
	binary.LittleEndian.PutUint32(wrapper, n.Magic)
	binary.LittleEndian.PutUint32(wrapper[4:], version)
	segment := m.Section(object.BuilderSection{
		Name: n.Sections.Wrapper, Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: 8, Content: content.Memory(wrapper),
	})
	m.Relocate(segment, 8, m.machine.abs64, image, 0)
	handle := m.Section(object.BuilderSection{Name: ".bss", Type: elf.ShtNobits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: 8, Size: 8})

	prefix, code := "."+r.Kind.String(), m.machine.code.of(r)
	m.functions(scope{
		"wrapper": m.local(".fatbin_wrapper", segment, 0, uint64(len(wrapper)), elf.TypeObject),
		"handle":  m.local(prefix+".binary_handle", handle, 0, 8, elf.TypeObject),
	}, []function{
		{"register", prefix + ".fatbin_reg", code.register},
		{"unregister", prefix + ".fatbin_unreg", code.unregister},
		{"globals", prefix + ".globals_reg", code.globals},
	})
}

// function is one function of a registration. Other functions reference it by name.
type function struct {
	name, symbol string
	code         code
}

// functions adds the code of a registration, whose first function is the
// constructor.
func (m *module) functions(names scope, list []function) {
	const priority = 101
	m.functionsAt(names, priority, false, list)
}

// functionsAt adds the code of a registration, whose first function is the
// constructor of a priority, and with destructor the second one the destructor.
func (m *module) functionsAt(names scope, priority int, destructor bool, list []function) {
	const align = 16 // of a function
	var text []byte
	var relocs []reloc
	starts := make([]int, len(list))
	for i, f := range list {
		for len(text)%align != 0 {
			text = append(text, m.machine.filler)
		}
		starts[i] = len(text)
		for _, r := range f.code.relocs {
			r.offset += uint64(starts[i])
			relocs = append(relocs, r)
		}
		text = append(text, f.code.text...)
	}
	section := m.Section(object.BuilderSection{
		Name: ".text.startup", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfExec, Align: align, Content: content.Memory(text),
	})
	for i, f := range list {
		names[f.name] = m.local(f.symbol, section, uint64(starts[i]), uint64(len(f.code.text)), elf.TypeFunc)
		if !m.machine.coff {
			m.unwinding.add(f.name, &f.code)
			m.unwound = append(m.unwound, names)
		}
	}
	for _, r := range relocs {
		m.Relocate(section, r.offset, r.typ, m.resolve(names, r.symbol), r.addend)
	}

	called := list[:1]
	if destructor {
		called = list[:2]
	}
	for i, f := range called {
		name, typ := m.machine.table(priority, i == 1)
		flags := uint64(elf.ShfAlloc | elf.ShfWrite)
		if m.machine.coff {
			flags = elf.ShfAlloc
		}
		table := m.Section(object.BuilderSection{Name: name, Type: typ, Flags: flags, Align: 8, Content: content.Memory(make([]byte, 8))})
		m.Relocate(table, 0, m.machine.abs64, names[f.name], 0)
		if i == 0 && !m.machine.coff {
			for _, symbol := range m.keep {
				m.Relocate(table, 0, m.machine.none, symbol, 0)
			}
		}
	}
	if m.machine.coff {
		m.exceptions(section, list, starts)
	}
}

// resolve returns the symbol for a name in code: one of names, or an external
// symbol.
func (m *module) resolve(names scope, name string) object.SymbolID {
	if symbol, ok := names[name]; ok {
		return symbol
	}
	symbol, ok := m.outside[name]
	if !ok {
		symbol = m.Symbol(object.BuilderSymbol{Name: name, Bind: elf.BindGlobal})
		m.outside[name] = symbol
	}
	return symbol
}

// finish adds the common parts of all objects and writes the object.
func (m *module) finish(out content.Sink) error {
	if m.machine.coff {
		return m.Write(out)
	}
	if len(m.unwinding.data) > 0 {
		frames := m.Section(object.BuilderSection{
			Name: ".eh_frame", Type: m.machine.unwind, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory(m.unwinding.data),
		})
		for i, r := range m.unwinding.relocs {
			m.Relocate(frames, r.offset, r.typ, m.unwound[i][r.symbol], r.addend)
		}
	}
	m.Section(object.BuilderSection{
		Name: ".note.gnu.property", Type: elf.ShtNote, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory(m.machine.note()),
	})
	// Without this note the linker would make the stack executable.
	m.Section(object.BuilderSection{Name: ".note.GNU-stack", Type: elf.ShtProgbits})
	return m.Write(out)
}

// note returns a note of type NT_GNU_PROPERTY_TYPE_0 with the property that
// declares the protection that the code supports.
func (m *machine) note() []byte {
	note, _ := binary.Append(nil, binary.LittleEndian, []uint32{4, 16, 5}) // name size, content size, type
	note = append(note, "GNU\x00"...)
	note, _ = binary.Append(note, binary.LittleEndian, []uint32{m.property, 4, m.ready, 0})
	return note
}
