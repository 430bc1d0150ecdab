package testelf

import (
	"bytes"
	"debug/elf"
	"maps"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// CodeObject describes an AMD code object to build.
type CodeObject struct {
	ABI   byte   // 0 to 4 for versions 2 to 6
	Flags uint32 // e_flags
	// Kernels have metadata, code and a descriptor each.
	Kernels []Kernel
	// Metadata replaces the metadata of the kernels; the note is left out if it
	// is empty but not nil.
	Metadata []byte
	// Variables are exported variables of the size of their contents.
	Variables map[string]string
	// Parts writes a note for each kernel, as links that generate code in parts do.
	Parts bool
	// NoSections leaves out the section headers.
	NoSections bool
}

// Kernel is a kernel of an object.
type Kernel struct {
	Name     string
	CodeSize uint64
	// Keys are the metadata of the kernel beside .name and .symbol: values are
	// int, bool, string and []int.
	Keys map[string]any
	// Rsrc1 and Rsrc3 are those of the descriptor.
	Rsrc1, Rsrc3 uint32
}

// metadata returns the MessagePack text of kernels.
func metadata(kernels []Kernel) []byte {
	b := msgp.AppendMapHeader(nil, 2)
	b = msgp.AppendString(b, "amdhsa.version")
	b = msgp.AppendArrayHeader(b, 2)
	b = msgp.AppendInt(msgp.AppendInt(b, 1), 2)
	b = msgp.AppendString(b, "amdhsa.kernels")
	b = msgp.AppendArrayHeader(b, uint32(len(kernels)))
	for _, k := range kernels {
		b = msgp.AppendMapHeader(b, uint32(len(k.Keys)+2))
		b = msgp.AppendString(msgp.AppendString(b, ".name"), k.Name)
		b = msgp.AppendString(msgp.AppendString(b, ".symbol"), k.Name+".kd")
		for _, key := range sorted(k.Keys) {
			b = msgp.AppendString(b, key)
			switch v := k.Keys[key].(type) {
			case []int:
				b = msgp.AppendArrayHeader(b, uint32(len(v)))
				for _, n := range v {
					b = msgp.AppendInt(b, n)
				}
			default:
				var err error
				if b, err = msgp.AppendIntf(b, v); err != nil {
					panic(err)
				}
			}
		}
	}
	return b
}

// Numbers of the layout of a code object.
const (
	codeBase     = 0x1000 // the address of the first byte of the file
	codeSegments = 3
	osABIAMDHSA  = 64
)

// codeObject is a code object while it is built. Its body, from the start of the file, is
// one loaded segment and the sections after it.
type codeObject struct {
	body           bytes.Buffer
	symbols, names bytes.Buffer
	note, dynamic  span
	rodata         span
	symtab, strtab span
	shoff          uint64
	sections       uint16
}

// span is a range of the file.
type span struct{ off, size uint64 }

// Build returns the file.
func (o CodeObject) Build() []byte {
	w := &codeObject{}
	w.body.Write(make([]byte, headerSize+codeSegments*segmentSize))
	w.note = w.add(func() { w.writeNote(&o) })
	w.align(64)
	w.names.WriteByte(0)
	write(&w.symbols, elf.Sym64{})
	w.rodata = span{off: w.note.off + w.note.size}
	w.writeCode(&o)
	w.rodata.size = w.at() - w.rodata.off
	w.align(8)
	w.symtab = w.add(func() { w.body.Write(w.symbols.Bytes()) })
	w.strtab = w.add(func() { w.body.Write(w.names.Bytes()) })
	w.writeDynamic()
	end := w.at()
	if !o.NoSections {
		w.writeSections()
	}
	out := w.body.Bytes()
	copy(out, w.headers(&o, end))
	return out
}

func (w *codeObject) at() uint64 { return uint64(w.body.Len()) }

func (w *codeObject) align(n int) {
	for w.body.Len()%n != 0 {
		w.body.WriteByte(0)
	}
}

// add returns the range of what fn writes.
func (w *codeObject) add(fn func()) span {
	off := w.at()
	fn()
	return span{off, w.at() - off}
}

// writeNote writes the note with the metadata, or several.
func (w *codeObject) writeNote(o *CodeObject) {
	if o.Parts {
		for _, k := range o.Kernels {
			w.writeNote(&CodeObject{ABI: o.ABI, Kernels: []Kernel{k}})
		}
		return
	}
	text := o.Metadata
	if text == nil {
		text = metadata(o.Kernels)
	}
	if len(text) == 0 {
		return
	}
	name, typ := "AMDGPU\x00\x00", uint32(32)
	if o.ABI == 0 {
		name, typ = "AMD\x00", 10
	}
	write(&w.body, uint32(len(strings.TrimRight(name, "\x00"))+1), uint32(len(text)), typ)
	w.body.WriteString(name)
	w.body.Write(text)
	w.align(4)
}

// writeCode writes descriptors and variables, and their symbols.
func (w *codeObject) writeCode(o *CodeObject) {
	symbol := func(name string, typ elf.SymType, size uint64) {
		write(&w.symbols, elf.Sym64{Name: uint32(w.names.Len()), Info: elf.ST_INFO(elf.STB_GLOBAL, typ), Other: byte(elf.STV_PROTECTED),
			Shndx: 1, Value: w.at() + codeBase, Size: size})
		w.names.WriteString(name + "\x00")
	}
	for _, k := range o.Kernels {
		w.align(64)
		symbol(k.Name+".kd", elf.STT_OBJECT, 64)
		d := make([]byte, 64)
		le.PutUint32(d[44:], k.Rsrc3)
		le.PutUint32(d[48:], k.Rsrc1)
		w.body.Write(d)
		symbol(k.Name, elf.STT_FUNC, k.CodeSize)
	}
	for _, name := range sorted(o.Variables) {
		symbol(name, elf.STT_OBJECT, uint64(len(o.Variables[name])))
		w.body.WriteString(o.Variables[name])
	}
}

// writeDynamic writes the hash table of symbols and the dynamic section.
func (w *codeObject) writeDynamic() {
	w.align(8)
	hash := w.at() // one bucket; only the number of symbols counts
	count := w.symbols.Len() / elf.Sym64Size
	write(&w.body, uint32(1), uint32(count), uint32(0))
	w.body.Write(make([]byte, count*4))
	w.align(8)
	w.dynamic = w.add(func() {
		for _, d := range []struct {
			tag   elf.DynTag
			value uint64
		}{
			{elf.DT_HASH, hash + codeBase}, {elf.DT_STRTAB, w.strtab.off + codeBase}, {elf.DT_SYMTAB, w.symtab.off + codeBase},
			{elf.DT_STRSZ, w.strtab.size}, {elf.DT_SYMENT, elf.Sym64Size}, {elf.DT_NULL, 0},
		} {
			write(&w.body, elf.Dyn64{Tag: int64(d.tag), Val: d.value})
		}
	})
}

// writeSections writes the names and the headers of sections.
func (w *codeObject) writeSections() {
	const names = "\x00.note\x00.rodata\x00.dynsym\x00.dynstr\x00.shstrtab\x00"
	shstrtab := w.add(func() { w.body.WriteString(names) })
	w.align(8)
	w.shoff = w.at()
	write(&w.body, elf.Section64{Flags: uint64(elf.SHF_ALLOC), Addralign: 4})
	w.sections = 1
	section := func(name string, typ elf.SectionType, s span, link uint32, entry uint64) {
		write(&w.body, elf.Section64{Name: uint32(strings.Index(names, name+"\x00")), Type: uint32(typ), Flags: uint64(elf.SHF_ALLOC),
			Addr: s.off + codeBase, Off: s.off, Size: s.size, Link: link, Addralign: 4, Entsize: entry})
		w.sections++
	}
	section(".note", elf.SHT_NOTE, w.note, 0, 0)
	section(".rodata", elf.SHT_PROGBITS, w.rodata, 0, 0)
	section(".dynsym", elf.SHT_DYNSYM, w.symtab, 4, elf.Sym64Size)
	section(".dynstr", elf.SHT_STRTAB, w.strtab, 0, 0)
	section(".shstrtab", elf.SHT_STRTAB, shstrtab, 0, 0)
}

// headers returns the headers of the file and of the segments, which end at end.
func (w *codeObject) headers(o *CodeObject, end uint64) []byte {
	var b bytes.Buffer
	h := header(elf.ET_DYN, elf.EM_AMDGPU, codeSegments, w.shoff, w.sections)
	h.Ident[elf.EI_OSABI], h.Ident[elf.EI_ABIVERSION], h.Flags = osABIAMDHSA, o.ABI, o.Flags
	write(&b, h)
	segment := func(typ elf.ProgType, s span) {
		write(&b, elf.Prog64{Type: uint32(typ), Flags: uint32(elf.PF_R), Off: s.off, Vaddr: s.off + codeBase, Paddr: s.off + codeBase,
			Filesz: s.size, Memsz: s.size, Align: 4})
	}
	segment(elf.PT_LOAD, span{0, end})
	segment(elf.PT_DYNAMIC, w.dynamic)
	segment(elf.PT_NOTE, w.note)
	return b.Bytes()
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
