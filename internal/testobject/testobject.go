// Package testobject builds small AMD code objects for tests.
package testobject

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Object describes a code object to build.
type Object struct {
	ABI   byte   // 0 to 4 for versions 2 to 6
	Flags uint32 // e_flags
	// Kernels have metadata, code and a descriptor each.
	Kernels []Kernel
	// Metadata replaces the metadata of the kernels; the note is left out if it
	// is empty but not nil.
	Metadata []byte
	// Variables are exported variables of the size of their contents.
	Variables map[string]string
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

// Metadata returns the MessagePack text of kernels.
func Metadata(kernels []Kernel) []byte {
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

// Build returns the file.
func (o Object) Build() []byte {
	const (
		ehdr, phdr, base = 64, 56, 0x1000
		segments         = 3
	)
	metadata := o.Metadata
	if metadata == nil {
		metadata = Metadata(o.Kernels)
	}
	var body bytes.Buffer // of the one loaded segment, from the start of the file
	body.Write(make([]byte, ehdr+segments*phdr))
	at := func() uint64 { return uint64(body.Len()) }
	align := func(n int) {
		for body.Len()%n != 0 {
			body.WriteByte(0)
		}
	}
	noteAt := at()
	if len(metadata) > 0 {
		name, typ := "AMDGPU\x00\x00", uint32(32)
		if o.ABI == 0 {
			name, typ = "AMD\x00", 10
		}
		write(&body, uint32(len(strings.TrimRight(name, "\x00"))+1), uint32(len(metadata)), typ)
		body.WriteString(name)
		body.Write(metadata)
		align(4)
	}
	noteSize := at() - noteAt
	align(64)

	var symbols, names bytes.Buffer
	names.WriteByte(0)
	symbols.Write(make([]byte, 24))
	symbol := func(name string, typ byte, value, size uint64) {
		write(&symbols, uint32(names.Len()), 1<<4|typ, byte(3), uint16(1), value+base, size)
		names.WriteString(name + "\x00")
	}
	for _, k := range o.Kernels {
		align(64)
		symbol(k.Name+".kd", 1, at(), 64)
		d := make([]byte, 64)
		binary.LittleEndian.PutUint32(d[44:], k.Rsrc3)
		binary.LittleEndian.PutUint32(d[48:], k.Rsrc1)
		body.Write(d)
		symbol(k.Name, 2, at(), k.CodeSize)
	}
	for _, name := range sorted(o.Variables) {
		symbol(name, 1, at(), uint64(len(o.Variables[name])))
		body.WriteString(o.Variables[name])
	}
	dataEnd := at()
	align(8)
	symtabAt := at()
	body.Write(symbols.Bytes())
	strtabAt := at()
	body.Write(names.Bytes())
	align(8)
	hashAt := at() // one bucket; only the number of symbols counts
	write(&body, uint32(1), uint32(symbols.Len()/24), uint32(0))
	body.Write(make([]byte, symbols.Len()/24*4))
	align(8)
	dynamicAt := at()
	for _, d := range [][2]uint64{{4, hashAt + base}, {5, strtabAt + base}, {6, symtabAt + base}, {10, uint64(names.Len())}, {11, 24}, {0, 0}} {
		write(&body, d)
	}
	end := at()

	shoff := uint64(0)
	const sections = 6
	if !o.NoSections {
		shnames := "\x00.note\x00.rodata\x00.dynsym\x00.dynstr\x00.shstrtab\x00"
		shstrtabAt := at()
		body.WriteString(shnames)
		align(8)
		shoff = at()
		section := func(name string, typ uint32, off, size uint64, link uint32, entry uint64) {
			n := 0
			if name != "" {
				n = strings.Index(shnames, name+"\x00")
			}
			address := off + base
			if typ == 0 {
				address = 0
			}
			write(&body, uint32(n), typ, uint64(2), address, off, size, link, uint32(0), uint64(4), entry)
		}
		section("", 0, 0, 0, 0, 0)
		section(".note", 7, noteAt, noteSize, 0, 0)
		section(".rodata", 1, noteAt+noteSize, dataEnd-noteAt-noteSize, 0, 0)
		section(".dynsym", 11, symtabAt, uint64(symbols.Len()), 4, 24)
		section(".dynstr", 3, strtabAt, uint64(names.Len()), 0, 0)
		section(".shstrtab", 3, shstrtabAt, uint64(len(shnames)), 0, 0)
	}

	out := body.Bytes()
	var head bytes.Buffer
	head.WriteString("\x7fELF\x02\x01\x01\x40")
	head.WriteByte(o.ABI)
	head.Write(make([]byte, 7))
	shnum, shstrndx := uint16(sections), uint16(sections-1)
	if o.NoSections {
		shnum, shstrndx = 0, 0
	}
	write(&head, uint16(3), uint16(224), uint32(1), uint64(0), uint64(ehdr), shoff, o.Flags,
		uint16(ehdr), uint16(phdr), uint16(segments), uint16(64), shnum, shstrndx)
	segment := func(typ uint32, off, size uint64) {
		write(&head, typ, uint32(4), off, off+base, off+base, size, size, uint64(4))
	}
	segment(1, 0, end)
	segment(2, dynamicAt, end-dynamicAt)
	segment(4, noteAt, noteSize)
	copy(out, head.Bytes())
	return out
}

// write appends numbers in little-endian order.
func write(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
