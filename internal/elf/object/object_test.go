package object

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/elf"
)

func TestParseELF(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			f, err := Parse(sample(k.is64, k.order, elf.MachineX8664))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"", ".text", ".doomed", ".bss", ".group", ".rela.text", ".symtab", ".strtab", ".names"}
			if d := cmp.Diff(want, sectionNames(f)); d != "" {
				t.Error(d)
			}
			if f.Format != ELFRelocatable || f.Machine != elf.MachineX8664 || f.Is64 != k.is64 || f.BigEndian != (k.order == binary.BigEndian) {
				t.Errorf("got %+v", f)
			}
			if got, err := f.Data(2); err != nil || string(got) != "bytes" {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := f.Data(3); err != nil || got != nil {
				t.Errorf("NOBITS: got %q, %v", got, err)
			}
			type sym struct {
				name     string
				kind     SymbolKind
				section  int
				in, weak bool
			}
			var got []sym
			for s, err := range f.Symbols() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, sym{string(s.Name), s.Kind, s.Section, s.InArchiveIndex(), s.Weak})
			}
			wantSyms := []sym{
				{"", Undefined, -1, false, false}, {"file.c", Absolute, -1, false, false}, {"", Defined, 1, false, false},
				{"local", Defined, 1, false, false}, {"gone", Defined, 2, false, false}, {"global", Defined, 1, true, false},
				{"weak", Defined, 1, true, true}, {"extern", Undefined, -1, false, false}, {"common", Common, -1, true, false},
			}
			if d := cmp.Diff(wantSyms, got, cmp.AllowUnexported(sym{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestArchiveSymbols(t *testing.T) {
	impObject := "\x00\x00\xff\xff\x00\x00\x64\x86\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00"
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"elf", fixture(t, "x86_64.o"), "_Z4weakv tls use _ZN1VIiE1nE _ZTW3tls"},
		{"elf big-endian", fixture(t, "mips.o"), "_Z4weakv tls use _ZN1VIiE1nE _ZTW3tls"},
		{"coff", fixture(t, "x86_64-coff.o"), "?n@?$V@H@@2HA ?weak@@YAHXZ .weak.?weak@@YAHXZ.default.?tls@@3HA ?tls@@3HA use"},
		{"aarch64", fixture(t, "aarch64.o"), "_Z4weakv tls use _ZN1VIiE1nE _ZTW3tls"},
		{"import of code", []byte(impObject + "\x04\x00func\x00x.dll\x00"), "__imp_func func"},
		{"import of data", []byte(impObject + "\x05\x00data\x00x.dll\x00"), "__imp_data"},
		{"text", []byte("no object"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			names, err := ArchiveSymbols(test.data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, strings.Join(names, " ")); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestHostile changes single fields of good files.
func TestHostile(t *testing.T) {
	good := sample(true, binary.LittleEndian, elf.MachineX8664)
	le := binary.LittleEndian
	shoff := le.Uint64(good[40:])
	put64 := func(at, v uint64) func([]byte) { return func(b []byte) { le.PutUint64(b[at:], v) } }
	put32 := func(at uint64, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	put16 := func(at uint64, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[at:], v) } }
	header := func(section, field uint64) uint64 { return shoff + 64*section + field }
	for _, test := range []struct {
		name   string
		change func([]byte)
		want   string // in the error of Parse, or of Rewrite
	}{
		{"class", func(b []byte) { b[4] = 7 }, "elf header at byte 0x4: class 7, expected 1 or 2"},
		{"order", func(b []byte) { b[5] = 9 }, "elf header at byte 0x5: byte order 9, expected 1 or 2"},
		{"shoff", put64(40, 1<<63), "section header table at byte 0x8000000000000000 passes the end of the file"},
		{"shoff wraps", put64(40, 1<<64-8), "section header table at byte 0xfffffffffffffff8 passes the end of the file"},
		{"shentsize", put16(58, 40), "section headers of 40 bytes, expected 64"},
		{"shnum", put16(60, 5000), "5000 headers of 64 bytes pass the end of the file"},
		{"shnum in section 0", func(b []byte) { put16(60, 0)(b); put64(header(0, 32), 1<<60)(b) }, "1152921504606846976 headers"},
		{"shstrndx", put16(62, 99), "section names are in section 99 of 9"},
		{"shstrndx of another type", put16(62, 1), "section 1 is not a string table"},
		{"names end", put64(header(8, 32), 1<<62), `section 8 "": offset 0x`},
		{"names not terminated", put64(header(8, 32), 5), "does not end with a NUL"},
		{"section name", put32(header(2, 0), 1<<30), "name offset 0x40000000 lies outside the table of names"},
		{"section past the end", put64(header(1, 24), 1<<40), `section 1 ".text": offset 0x10000000000 + size 0x20 passes the end of the file`},
		{"section wraps", put64(header(1, 24), 1<<64-16), "passes the end of the file"},
		{"symbol size", put64(header(6, 56), 23), "in entries of 23, expected entries of 24"},
		{"symbols odd", put64(header(6, 32), 25), "25 bytes in entries of 24"},
		{"no null symbol", put64(header(6, 32), 0), "has no null symbol"},
		{"symbol names", put32(header(6, 40), 77), "section 77 is not a string table"},
		{"two symbol tables", put32(header(7, 4), elf.ShtSymtab), "both symbol tables"},
		{"reloc target", put32(header(5, 44), 50), "applies to section 50, which does not exist"},
		{"reloc entries", put64(header(5, 56), 7), "expected entries of 24"},
		{"reloc link", put32(header(5, 40), 1), "linked to section 1, which is not a symbol table"},
		{"group signature", put32(header(4, 44), 900), "its signature is symbol 900 of 9"},
		{"group size", put64(header(4, 32), 6), "a group of 6 bytes, expected a multiple of 4"},
		{"alignment", put64(header(1, 48), 1<<62), "alignment 0x4000000000000000"},
		{"alignment wraps", put64(header(1, 48), 1<<64-1), "alignment 0xffffffffffffffff"},
		{"link", put32(header(1, 40), 70), "linked to section 70, which does not exist"},
		{"program headers", func(b []byte) { put16(54, 56)(b); put16(56, 3)(b); put64(32, 1<<50)(b) }, "program header table at byte 0x4000000000000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := append([]byte(nil), good...)
			test.change(bad)
			_, err := tryRewrite(bad, Edits{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	symbols := func(at uint64) uint64 { return le.Uint64(good[header(6, 24):]) + at }
	for _, test := range []struct {
		name   string
		change func([]byte)
		want   string
	}{
		{"name", put32(symbols(24), 1<<31), "symbol 1 at byte 0x"},
		{"section", put16(symbols(24*3+6), 300), `symbol 3 "local": section 300 does not exist, the file has 9`},
		{"extended section", put16(symbols(24*3+6), elf.ShnXindex), `symbol 3 "local": its section index is in a table that the file does not have`},
	} {
		t.Run("symbol "+test.name, func(t *testing.T) {
			bad := append([]byte(nil), good...)
			test.change(bad)
			if _, err := ArchiveSymbols(bad); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestTruncated cuts files at every length: nothing may panic, and no cut file is
// whole.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"x86_64.o", "mips.o", "x86_64-coff.o"} {
		whole := fixture(t, name)
		for n := range whole {
			f, err := Parse(whole[:n])
			if err != nil {
				continue
			}
			for range f.Symbols() {
			}
			if name != "x86_64-coff.o" {
				t.Fatalf("%s: the first %d of %d bytes parse", name, n, len(whole))
			}
			tryRewrite(whole[:n], Edits{})
		}
	}
}

// TestOverlappingNames makes a table whose many names share a few bytes.
func TestOverlappingNames(t *testing.T) {
	long := append([]byte{0}, strings.Repeat("x", 1<<16)...)
	h := elfHeader{is64: true, order: binary.LittleEndian}
	symbols := elfEncoder{h: &h}
	for i := range 20000 {
		symbols.symbol(uint32(i%1000), &elfSymbol{info: 0x10}, elf.ShnAbs)
	}
	spec := elfSpec{header: h, sections: []specSection{
		{".symtab", elf.SectionHeader{Type: elf.ShtSymtab, Align: 8, EntSize: 24, Link: 2, Info: 1}, symbols.buf},
		{".strtab", elf.SectionHeader{Type: elf.ShtStrtab, Align: 1}, append(long, 0)},
	}}
	data := spec.bytes()
	if _, err := ArchiveSymbols(data); err == nil || !strings.Contains(err.Error(), "names overlap") {
		t.Errorf("got %v", err)
	}
	if _, err := tryRewrite(data, Edits{}); err == nil || !strings.Contains(err.Error(), "names overlap") {
		t.Errorf("got %v", err)
	}
}

func TestStringLookup(t *testing.T) {
	data := []byte(strings.Repeat("a", 3*stringBlock) + "\x00" + strings.Repeat("bc\x00", 10*stringBlock) + strings.Repeat("d", 9*stringBlock) + "\x00")
	table := newStringTable(data)
	end := len(data)
	for off := len(data) - 1; off >= 0; off-- {
		if data[off] == 0 {
			end = off
		}
		if got, ok := table.at(uint64(off)); !ok || len(got) != end-off {
			t.Fatalf("at %d: got %d bytes, want %d", off, len(got), end-off)
		}
	}
	if _, ok := table.at(uint64(len(data))); ok {
		t.Error("found a string behind the table")
	}
}
