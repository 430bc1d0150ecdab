package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-offload/rules_offload/engine/content"
)

// coffSample is a COFF object with relocations, a COMDAT section and one that is
// associated with it, a table of symbol numbers, a weak alias, a file name and
// long names; in the bigobj form when big is set.
func coffSample(big bool) []byte {
	le := binary.LittleEndian
	type symbol struct {
		name    string
		value   uint32
		section int32
		class   byte
		aux     []byte
	}
	aux := func(section uint16, selection byte) []byte {
		b := make([]byte, coffSymbolSize)
		le.PutUint16(b[12:], section)
		b[14] = selection
		return b
	}
	alias := make([]byte, coffSymbolSize)
	alias[0], alias[4] = 11, weakExternAlias
	file := append([]byte("source.c"), make([]byte, coffSymbolSize-8)...)
	symbols := []symbol{
		{".file", 0, -2, symClassFile, file},                         // 0
		{".text", 0, 1, symClassStatic, aux(1, 0)},                   // 2
		{".text$comdat", 0, 2, symClassStatic, aux(2, 2)},            // 4
		{".follower", 0, 3, symClassStatic, aux(2, 5)},               // 6
		{".gfids$y", 0, 4, symClassStatic, aux(4, 0)},                // 8
		{"main", 0, 1, symClassExternal, nil},                        // 10
		{"a_function_with_a_long_name", 0, 1, symClassExternal, nil}, // 11
		{"in_comdat_section", 0, 2, symClassExternal, nil},           // 12
		{"weak", 0, 0, symClassWeakExternal, alias},                  // 13
		{"extern", 0, 0, symClassExternal, nil},                      // 15
		{"common", 16, 0, symClassExternal, nil},                     // 16
		{"absolute", 1, -1, symClassStatic, nil},                     // 17
	}
	strings := []byte{0, 0, 0, 0}
	name := func(s string, section bool) []byte {
		b := make([]byte, coffNameSize)
		if len(s) <= coffNameSize {
			copy(b, s)
			return b
		}
		at := len(strings)
		strings = append(append(strings, s...), 0)
		if section {
			copy(b, fmt.Sprintf("/%d", at))
			return b
		}
		le.PutUint32(b[4:], uint32(at))
		return b
	}
	size, headerSize := coffSymbolSize, coffHeaderSize
	if big {
		size, headerSize = coffBigSymbolSize, bigObjHeaderSize
	}
	contents := [][]byte{[]byte("code of main"), []byte("comdat"), []byte("follower"), le.AppendUint32(le.AppendUint32(nil, 11), 10), nil}
	relocs := make([]byte, 2*coffRelocSize)
	relocs[4], relocs[coffRelocSize+4] = 15, 11
	body := make([]byte, headerSize+5*coffSectionSize)
	heads := []byte{}
	for i, s := range []struct {
		name  string
		chars uint32
	}{
		{".text", scnCode | scnMemExecute | scnMemRead}, {".text$comdat", scnCode | scnMemRead}, {".follower", scnMemRead},
		{".gfids$y", scnMemRead}, {".bss", 0x80 | scnMemRead | scnMemWrite},
	} {
		raw, at, relocsAt, n := uint32(len(contents[i])), uint32(len(body)), uint32(0), uint16(0)
		body = append(body, contents[i]...)
		switch i {
		case 0:
			relocsAt, n = uint32(len(body)), 2
			body = append(body, relocs...)
		case 4:
			raw, at = 32, 0
		}
		heads = append(heads, name(s.name, true)...)
		for _, v := range []uint32{0, 0, raw, at, relocsAt, 0} {
			heads = le.AppendUint32(heads, v)
		}
		heads = le.AppendUint16(heads, n)
		heads = le.AppendUint16(heads, 0)
		heads = le.AppendUint32(heads, s.chars)
	}
	symbolsAt := len(body)
	records := 0
	for _, s := range symbols {
		b := le.AppendUint32(name(s.name, false), s.value)
		if b = le.AppendUint16(b, uint16(s.section)); big {
			b = le.AppendUint16(b, uint16(s.section>>16))
		}
		b = append(b, 0, 0, s.class, byte(len(s.aux)/coffSymbolSize))
		body = append(body, b...)
		if s.aux != nil {
			body = append(append(body, s.aux...), make([]byte, size-coffSymbolSize)...)
			records++
		}
		records++
	}
	le.PutUint32(strings, uint32(len(strings)))
	body = append(body, strings...)
	var h []byte
	if big {
		h = append(h, 0, 0, 0xff, 0xff, 2, 0, 0x64, 0x86, 1, 2, 3, 4)
		h = append(append(h, bigObjUUID...), make([]byte, 16)...)
		h = le.AppendUint32(h, 5)
	} else {
		h = append(h, 0x64, 0x86, 5, 0, 1, 2, 3, 4)
	}
	h = le.AppendUint32(h, uint32(symbolsAt))
	h = le.AppendUint32(h, uint32(records))
	copy(body, h)
	copy(body[headerSize:], heads)
	return body
}

// TestCOFFLLVM has digests of the output of llvm-objcopy 22.1.8 for coffSample.
func TestCOFFLLVM(t *testing.T) {
	for _, test := range []struct {
		name   string
		big    bool
		e      Edits
		digest string
	}{
		{"copy", false, Edits{}, "78b35962dee7ae24"},
		{"copy bigobj", true, Edits{}, "78b35962dee7ae24"},
		{"remove", false, Edits{Remove: isName(".text$comdat")}, "88106ff8d393c7f0"},
		{"remove bigobj", true, Edits{Remove: isName(".text$comdat")}, "88106ff8d393c7f0"},
		{"rename", false, Edits{RenameSymbol: map[string]string{"main": "main_renamed"}}, "b282c03c51a66eb9"},
	} {
		got := rewrite(t, coffSample(test.big), test.e)
		if d := fmt.Sprintf("%x", sha256.Sum256(got))[:16]; d != test.digest {
			t.Errorf("%s: got %s, want %s", test.name, d, test.digest)
		}
	}
}

func TestParseCOFF(t *testing.T) {
	for _, big := range []bool{false, true} {
		f, err := Parse(coffSample(big))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{".text", ".text$comdat", ".follower", ".gfids$y", ".bss"}, sectionNames(f)); d != "" {
			t.Error(d)
		}
		if got, err := f.Data(1); err != nil || string(got) != "comdat" {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := f.Data(4); err != nil || got != nil {
			t.Errorf("got %q, %v", got, err)
		}
		names, err := ArchiveSymbols(coffSample(big))
		if err != nil {
			t.Fatal(err)
		}
		want := "main a_function_with_a_long_name in_comdat_section weak common"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCOFFInUse(t *testing.T) {
	le := binary.LittleEndian
	in := coffSample(false)
	if _, err := tryRewrite(in, Edits{Remove: isName(".text")}); err == nil ||
		err.Error() != `section 3 ".gfids$y" at byte 0x10a: symbol "a_function_with_a_long_name" is in a removed section` {
		t.Errorf("got %v", err)
	}
	// With no table in the way, the relocation is.
	relocated := slices.Clone(in)
	le.PutUint32(relocated[le.Uint32(relocated[coffHeaderSize+24:])+4:], 12)
	if _, err := tryRewrite(relocated, Edits{Remove: isName(".text$comdat")}); err == nil ||
		err.Error() != `section ".text$comdat" cannot be removed: section 1 ".text" has a relocation against symbol "in_comdat_section" in it` {
		t.Errorf("got %v", err)
	}
}

// TestCOFFManyRelocations needs the form of the count that passes 16 bits.
func TestCOFFManyRelocations(t *testing.T) {
	le := binary.LittleEndian
	in := coffSample(false)
	const n = 70000
	at := uint32(len(in))
	in = le.AppendUint32(in, n+1)
	in = append(in, make([]byte, 6+n*coffRelocSize)...)
	for i := range n {
		in[int(at)+coffRelocSize*(i+1)+4] = 10
	}
	h := in[coffHeaderSize:]
	le.PutUint32(h[24:], at)
	le.PutUint16(h[32:], 0xffff)
	le.PutUint32(h[36:], le.Uint32(h[36:])|scnRelocOverflow)
	out := rewrite(t, in, Edits{Add: []NewSection{BundleSection("added", content.Memory([]byte("x")))}})
	f, err := Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Sections[0].coff
	if s.Relocs != 0xffff || s.Characteristics&scnRelocOverflow == 0 || le.Uint32(out[s.RelocsAt:]) != n+1 {
		t.Errorf("got %+v", s)
	}
}

// TestCOFFManySections goes from the plain form to bigobj and back.
func TestCOFFManySections(t *testing.T) {
	in := coffSample(false)
	var add []NewSection
	for i := range coffMaxSections {
		add = append(add, BundleSection(bundleMagic+fmt.Sprint(i), content.Memory([]byte{1})))
	}
	fat := rewrite(t, in, Edits{Add: add})
	if !bytes.Contains(fat[:64], bigObjUUID) {
		t.Error("not a bigobj file")
	}
	back := rewrite(t, fat, Edits{Remove: isBundle})
	// What is lost in a bigobj file is the characteristics of the file, 0 here.
	if !bytes.Equal(back, rewrite(t, in, Edits{})) {
		t.Error("adding and removing sections changed the object")
	}
}

func TestCOFFHostile(t *testing.T) {
	good := coffSample(false)
	le := binary.LittleEndian
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	put16 := func(at int, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[at:], v) } }
	section := func(i, field int) int { return coffHeaderSize + i*coffSectionSize + field }
	symbol := func(i, field int) int { return int(le.Uint32(good[8:])) + i*coffSymbolSize + field }
	for _, test := range []struct {
		name   string
		change func([]byte)
		want   string
	}{
		{"sections", put16(2, 60000), "60000 headers of 40 bytes pass the end of the file"},
		{"no symbol table", put32(8, 0), "18 symbols but no symbol table"},
		{"symbol table", put32(12, 1<<31), "is not an offset into the string table"}, // names are lost with it
		{"section name", func(b []byte) { copy(b[section(1, 0):], "/999999") }, `section 2 of 5 at byte 0x3c: its name "/999999" is not an offset`},
		{"contents", put32(section(0, 20), 1<<31), `section 0 ".text": offset 0x80000000 + size 0xc passes the end of the file`},
		{"relocations", put32(section(0, 24), 1<<31), "2 relocations at byte 0x80000000 pass the end of the file"},
		{"relocation", func(b []byte) { le.PutUint32(b[le.Uint32(b[section(0, 24):])+4:], 1) }, "relocation: record 1 is not a symbol"},
		{"relocations overlap", func(b []byte) {
			for i := range 5 {
				copy(b[section(i, 24):], b[section(0, 24):section(0, 28)])
				put16(section(i, 32), 30)(b)
			}
		}, "overlap those of other sections"},
		{"count of relocations", func(b []byte) {
			put16(section(0, 32), 0xffff)(b)
			put32(section(0, 36), scnRelocOverflow)(b)
			put32(int(le.Uint32(b[section(0, 24):])), 0)(b)
		}, "a count of 0 relocations"},
		{"symbol name", put32(symbol(4, 4), 1<<30), "name offset 0x40000000 lies outside the string table"},
		{"symbol section", put16(symbol(10, 12), 77), `symbol 10 "main": section 77 does not exist, the file has 5`},
		{"auxiliary records", func(b []byte) { b[symbol(10, 17)] = 200 }, "200 auxiliary records pass the end of the symbol table"},
		{"associated section", put16(symbol(7, 12), 99), "associated with section 99, the file has 5"},
		{"weak alias", put32(symbol(14, 0), 1<<20), "weak alias: record 1048576 is not a symbol"},
		{"table of symbols", func(b []byte) { put32(int(le.Uint32(b[section(3, 20):])), 5)(b) }, "record 5 is not a symbol"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := slices.Clone(good)
			test.change(bad)
			if _, err := tryRewrite(bad, Edits{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			ArchiveSymbols(bad)
		})
	}
}
