package object

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// kinds are the four shapes of ELF file.
var kinds = []struct {
	name  string
	is64  bool
	order byteOrder
}{
	{"elf64le", true, binary.LittleEndian},
	{"elf64be", true, binary.BigEndian},
	{"elf32le", false, binary.LittleEndian},
	{"elf32be", false, binary.BigEndian},
}

// elfSpec is an ELF file for tests, written without any of the code under test
// but the field encoder. Fields left out of Section are filled in.
type elfSpec struct {
	header   elfHeader
	sections []specSection // from index 1; section names go to the last one
}

type specSection struct {
	name string
	elf.SectionHeader
	data []byte
}

// bytes returns the file: the sections in sequence, then the headers.
func (s *elfSpec) bytes() []byte {
	h := &s.header
	h.version = 1
	if h.typ == 0 {
		h.typ = elf.EtRel
	}
	names := []byte{0}
	body := elfEncoder{h: h}
	body.buf = make([]byte, h.ehdrSize())
	heads := elfEncoder{h: h}
	sections := append(s.sections, specSection{name: ".names", SectionHeader: elf.SectionHeader{Type: elf.ShtStrtab, Align: 1}})
	n := uint32(len(sections))
	heads.nullSection(int(n)+1, n)
	offsets := make([]uint32, len(sections))
	for i, sec := range sections {
		offsets[i] = uint32(len(names))
		names = append(append(names, sec.name...), 0)
	}
	sections[n-1].data = names
	for i, sec := range sections {
		for uint64(len(body.buf))%max(sec.Align, 1) != 0 {
			body.buf = append(body.buf, 0)
		}
		if sec.Offset == 0 {
			sec.Offset = uint64(len(body.buf))
		}
		if sec.Size == 0 {
			sec.Size = uint64(len(sec.data))
		}
		body.buf = append(body.buf, sec.data...)
		heads.section(&sec.SectionHeader, offsets[i])
	}
	for uint64(len(body.buf))%h.addrSize() != 0 {
		body.buf = append(body.buf, 0)
	}
	head := elfEncoder{h: h}
	head.header(0, uint64(len(body.buf)), 0, int(n)+1, n)
	copy(body.buf, head.buf)
	return append(body.buf, heads.buf...)
}

// sample is an object with text, relocations, a group and symbols of all kinds.
func sample(is64 bool, order byteOrder, machine uint16) []byte {
	h := elfHeader{is64: is64, order: order, machine: machine}
	symbols, group, relocs := elfEncoder{h: &h}, elfEncoder{h: &h}, elfEncoder{h: &h}
	names := "\x00local\x00global\x00weak\x00extern\x00common\x00file.c\x00gone\x00"
	at := func(name string) uint32 {
		if name == "" {
			return 0
		}
		return uint32(strings.Index(names, "\x00"+name+"\x00") + 1)
	}
	for _, s := range []struct {
		name  string
		info  byte
		shndx uint16
	}{
		{"", 0, 0}, {"file.c", elf.TypeFile, elf.ShnAbs}, {"", elf.TypeSection, 1}, {"local", 0, 1}, {"gone", 0, 2},
		{"global", 0x12, 1}, {"weak", 0x22, 1}, {"extern", 0x10, 0}, {"common", 0x11, elf.ShnCommon},
	} {
		symbols.symbol(at(s.name), &elfSymbol{info: s.info}, s.shndx)
	}
	group.u32(elf.GrpComdat)
	group.u32(1)
	for _, sym := range []uint64{2, 5, 7} {
		relocs.addr(sym * 4)
		relocs.addr(sym<<pick(is64, 32, 8) | 1)
		relocs.addr(0)
	}
	spec := elfSpec{header: h, sections: []specSection{
		{".text", elf.SectionHeader{Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfExec | elf.ShfGroup, Align: 16}, []byte("0123456789abcdef0123456789abcdef")},
		{".doomed", elf.SectionHeader{Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 1}, []byte("bytes")},
		{".bss", elf.SectionHeader{Type: elf.ShtNobits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: 4, Size: 64}, nil},
		{".group", elf.SectionHeader{Type: elf.ShtGroup, Align: 4, EntSize: 4, Link: 6, Info: 6}, group.buf},
		{".rela.text", elf.SectionHeader{Type: elf.ShtRela, Flags: 0x40, Align: h.addrSize(), EntSize: h.relaSize(), Link: 6, Info: 1}, relocs.buf},
		{".symtab", elf.SectionHeader{Type: elf.ShtSymtab, Align: h.addrSize(), EntSize: h.symSize(), Link: 7, Info: 5}, symbols.buf},
		{".strtab", elf.SectionHeader{Type: elf.ShtStrtab, Align: 1}, []byte(names)},
	}}
	return spec.bytes()
}

// rewrite runs Rewrite into memory.
func rewrite(t testing.TB, in []byte, e Edits) []byte {
	t.Helper()
	out, err := tryRewrite(in, e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryRewrite(in []byte, e Edits) ([]byte, error) {
	var out content.Buffer
	err := Rewrite(content.Memory(in), e, &out)
	return out.Bytes(), err
}

// fixture returns the contents of a file in testdata.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sectionNames lists the names of f's sections.
func sectionNames(f *File) []string {
	var names []string
	for _, s := range f.Sections {
		names = append(names, string(s.Name))
	}
	return names
}
