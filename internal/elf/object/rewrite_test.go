package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"pgregory.net/rapid"
)

func isBundle(name []byte) bool { return bytes.HasPrefix(name, []byte(bundleMagic)) }

func isName(want string) func([]byte) bool {
	return func(name []byte) bool { return string(name) == want }
}

// TestLLVM has digests of the output of llvm-objcopy 22.1.8 for clang's objects in testdata: with
// added bundle sections, with those removed again, with a renamed symbol and removed sections, with
// a renamed section.
func TestLLVM(t *testing.T) {
	for _, test := range []struct{ name, added, removed, edited, renamed string }{
		{"aarch64", "eaf749a53afb05a5", "dfb08a5858e792b2", "adedccf2e343ac02", "85f9f37926647c20"},
		{"i386", "9c52b346ecd87050", "0e264b81ed417407", "f6ee39a598ed4fd1", "0e2fdd2ed6d9bcaa"},
		{"mips", "842a4fd5734dbc7e", "e3434da0d4eeb75f", "2515b2ebd5772527", "3648655e5219f6b1"},
		{"mips64el", "931acb7a6a02e0d0", "c7f69c332ba822d4", "a450f07eb3a1c096", "a57d0c12b6594674"},
		{"powerpc64", "b873980d6e7a0284", "a557026b039afb70", "506be59997469667", "9c11dc432f7203e8"},
		{"riscv64", "2ce96939d20d3a14", "58bea2bc5b1eb847", "a1e0ba7edbdad5c6", "84584886a5fd0f3a"},
		{"x86_64-coff", "5d54942ddf225bf0", "c9eb6d644910afc9", "301495a3ca8399ba", ""}, // LLVM does not rename sections of COFF
		{"x86_64", "0c68f9920c3e4d18", "9aaf851e816528b6", "40acdf6149e283d9", "f3ccafcd70b9c7cb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := fixture(t, test.name+".o")
			digest := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:16] }
			check := func(what, want string, got []byte) {
				t.Helper()
				if d := digest(got); d != want && want != "" {
					t.Errorf("%s: got %s, want %s", what, d, want)
				}
			}
			added := rewrite(t, in, Edits{Add: []NewSection{
				BundleSection(bundleMagic+"host-"+test.name+"-", content.Memory([]byte{0})),
				BundleSection(bundleMagic+"hip-amdgcn-amd-amdhsa--gfx906", content.Memory([]byte("payload"))),
			}})
			check("added", test.added, added)
			check("removed", test.removed, rewrite(t, added, Edits{Remove: isBundle}))
			check("edited", test.edited, rewrite(t, in, Edits{
				Remove:       func(n []byte) bool { return string(n) == ".group" || string(n) == ".llvm_addrsig" },
				RenameSymbol: map[string]string{"use": "renamed"},
			}))
			check("renamed", test.renamed, rewrite(t, in, Edits{RenameSection: map[string]string{".text": ".other.text"}}))
		})
	}
}

// settle rewrites an object until that changes nothing.
func settle(t testing.TB, data []byte) []byte {
	for range 4 {
		next := rewrite(t, data, Edits{})
		if bytes.Equal(next, data) {
			return data
		}
		data = next
	}
	t.Fatal("the layout does not settle")
	return nil
}

func TestAddThenRemove(t *testing.T) {
	var objects [][]byte
	for _, name := range []string{"x86_64.o", "mips.o", "mips64el.o", "i386.o", "x86_64-coff.o"} {
		objects = append(objects, settle(t, fixture(t, name)))
	}
	for _, k := range kinds {
		objects = append(objects, settle(t, sample(k.is64, k.order, elf.MachineX8664)))
	}
	rapid.Check(t, func(rt *rapid.T) {
		in := rapid.SampledFrom(objects).Draw(rt, "object")
		var add []NewSection
		var payloads [][]byte
		for i := range rapid.IntRange(1, 6).Draw(rt, "sections") {
			payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "payload")
			s := BundleSection(fmt.Sprintf("%s%s%d", bundleMagic, rapid.StringMatching(`[a-z0-9:+-]{0,40}`).Draw(rt, "id"), i), content.Memory(payload))
			if rapid.Bool().Draw(rt, "aligned") {
				s.Align = 16
			}
			add, payloads = append(add, s), append(payloads, payload)
		}
		fat, err := tryRewrite(in, Edits{Add: add})
		if err != nil {
			rt.Fatal(err)
		}
		f, err := Parse(fat)
		if err != nil {
			rt.Fatal(err)
		}
		at := len(f.Sections) - len(add)
		for i := range add {
			got, err := f.Data(at + i)
			if err != nil || !bytes.Equal(got, payloads[i]) || string(f.Sections[at+i].Name) != add[i].Name || !excluded(f, at+i) {
				rt.Fatalf("section %d: %v, %q", i, err, f.Sections[at+i].Name)
			}
		}
		back, err := tryRewrite(fat, Edits{Remove: isBundle})
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(back, in) {
			rt.Fatal("adding and removing sections changed the object")
		}
	})
}

func TestRemoveReferences(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			in := sample(k.is64, k.order, elf.MachineX8664)
			// Removing .doomed removes its symbol; the other symbols move up.
			out := rewrite(t, in, Edits{Remove: isName(".doomed"), RenameSymbol: map[string]string{"global": "a_longer_name"}})
			f, err := Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"", ".text", ".bss", ".group", ".rela.text", ".symtab", ".strtab", ".names"}, sectionNames(f)); d != "" {
				t.Error(d)
			}
			var names []string
			for s, err := range f.Symbols() {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, string(s.Name))
			}
			if d := cmp.Diff([]string{"", "file.c", "", "local", "a_longer_name", "weak", "extern", "common"}, names); d != "" {
				t.Error(d)
			}
			relocs, err := f.Data(4)
			if err != nil {
				t.Fatal(err)
			}
			r := elfRewriter{f: f, h: f.elf}
			var refs []uint32
			for ; len(relocs) > 0; relocs = relocs[f.elf.relaSize():] {
				refs = append(refs, r.relocSymbol(relocs))
			}
			if d := cmp.Diff([]uint32{2, 4, 6}, refs); d != "" {
				t.Error(d)
			}
			if s := f.Sections[3]; s.Info != 5 || s.Link != 5 { // weak and .symtab
				t.Errorf("group: got %+v", s)
			}
		})
	}
}

func TestRemoveInUse(t *testing.T) {
	in := sample(true, binary.LittleEndian, elf.MachineX8664)
	for _, test := range []struct{ section, want string }{
		{".strtab", `section 7 ".strtab" cannot be removed: section 6 ".symtab" refers to it`},
		{".symtab", `section 6 ".symtab" cannot be removed: section 4 ".group" refers to it`},
		{".names", `section 8 ".names" cannot be removed: it holds the section names`},
	} {
		_, err := tryRewrite(in, Edits{Remove: isName(test.section)})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.section, err, test.want)
		}
	}
	// Removing .text removes its relocations and its group.
	f, err := Parse(rewrite(t, in, Edits{Remove: isName(".text")}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"", ".doomed", ".bss", ".symtab", ".strtab", ".names"}, sectionNames(f)); d != "" {
		t.Error(d)
	}
}

func TestOffloadingSection(t *testing.T) {
	for _, name := range []string{"x86_64.o", "mips.o", "x86_64-coff.o"} {
		out := rewrite(t, fixture(t, name), Edits{Add: []NewSection{OffloadingSection(content.Memory([]byte("\x10\xff\x10\xad")))}})
		f, err := Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		i := len(f.Sections) - 1
		s := f.Sections[i]
		if string(s.Name) != ".llvm.offloading" || s.Align != 8 || !excluded(f, i) {
			t.Errorf("%s: got %+v", name, s)
		}
		if f.elf != nil && (s.Type != elf.ShtOffloading || s.Flags != elf.ShfExclude || s.Offset%8 != 0) {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

// TestManySections goes past the section numbers that fit 16 bits and back.
func TestManySections(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			in := sample(k.is64, k.order, elf.MachineX8664)
			var add []NewSection
			for i := range elf.ShnLoReserve {
				add = append(add, BundleSection(bundleMagic+fmt.Sprint(i), content.Memory([]byte{byte(i)})))
			}
			fat := rewrite(t, in, Edits{Add: add})
			f, err := Parse(fat)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Sections) != 9+len(add) {
				t.Errorf("got %d sections", len(f.Sections))
			}
			if got := rewrite(t, fat, Edits{Remove: isBundle}); !bytes.Equal(got, rewrite(t, in, Edits{})) {
				t.Error("adding and removing sections changed the object")
			}
		})
	}
	// A symbol in a section of a high number needs the table of indices.
	h := elfHeader{is64: true, order: binary.LittleEndian}
	symbols := elfEncoder{h: &h}
	symbols.symbol(0, &elfSymbol{}, 0)
	symbols.symbol(1, &elfSymbol{info: 0x10}, elf.ShnXindex)
	const high = 66000
	spec := elfSpec{header: h, sections: []specSection{
		{".symtab", elf.SectionHeader{Type: elf.ShtSymtab, Align: 8, EntSize: 24, Link: 2, Info: 1}, symbols.buf},
		{".strtab", elf.SectionHeader{Type: elf.ShtStrtab, Align: 1}, []byte("\x00high\x00")},
		{".symtab_shndx", elf.SectionHeader{Type: elf.ShtSymtabShndx, Align: 4, EntSize: 4, Link: 1}, binary.LittleEndian.AppendUint32(make([]byte, 4), high)},
	}}
	for len(spec.sections) < high {
		spec.sections = append(spec.sections, specSection{"s", elf.SectionHeader{Type: elf.ShtProgbits, Align: 1}, []byte{1}})
	}
	spec.sections[high-1].name = "last"
	in := spec.bytes()
	symbolIn := func(data []byte) string {
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for s, err := range f.Symbols() {
			if err != nil {
				t.Fatal(err)
			}
			if s.Kind == Defined {
				return string(f.Sections[s.Section].Name) + fmt.Sprint(s.Section)
			}
		}
		return ""
	}
	if got, want := symbolIn(rewrite(t, in, Edits{})), "last66000"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	few := rewrite(t, in, Edits{Remove: isName("s")})
	if got, want := symbolIn(few), "last3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if bytes.Contains(few, []byte("shndx")) {
		t.Error("the table of indices outlived its use")
	}
}

func TestRenameSections(t *testing.T) {
	out := rewrite(t, sample(true, binary.LittleEndian, elf.MachineX8664), Edits{RenameSection: map[string]string{".text": "code", ".bss": ".zero"}})
	f, err := Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"", "code", ".doomed", ".zero", ".group", ".relacode", ".symtab", ".strtab", ".names"}, sectionNames(f)); d != "" {
		t.Error(d)
	}
}

// TestSegments rewrites a linked file: segments keep their bytes and their
// addresses modulo the page, the headers move with them.
func TestSegments(t *testing.T) {
	spec := elfSpec{header: elfHeader{is64: true, order: binary.LittleEndian, typ: elf.EtDyn, machine: elf.MachineX8664}, sections: []specSection{
		{".text", elf.SectionHeader{Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 4096, Addr: 4096}, []byte("code")},
		{".comment", elf.SectionHeader{Type: elf.ShtProgbits, Align: 1}, []byte("outside")},
	}}
	in := spec.bytes()
	phoff := uint64(len(in))
	e := elfEncoder{h: &spec.header}
	f, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, seg := range []struct{ typ, off, size uint64 }{{1, 0, f.Sections[1].Offset + 4}, {6, phoff, 56 * 2}} {
		e.u32(uint32(seg.typ))
		e.u32(5)
		for _, v := range []uint64{seg.off, seg.off, seg.off, seg.size, seg.size, 4096} {
			e.addr(v)
		}
	}
	in = append(in, e.buf...)
	binary.LittleEndian.PutUint64(in[32:], phoff)
	binary.LittleEndian.PutUint16(in[54:], 56)
	binary.LittleEndian.PutUint16(in[56:], 2)
	out := rewrite(t, in, Edits{Add: []NewSection{BundleSection("added", content.Memory([]byte("payload")))}})
	if f, err = Parse(out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"", ".text", ".comment", ".names", "added"}, sectionNames(f)); d != "" {
		t.Error(d)
	}
	for i, want := range []string{"", "code", "outside"} {
		if got, err := f.Data(i); err != nil || string(got) != want {
			t.Errorf("section %d: got %q, %v", i, got, err)
		}
	}
	if !bytes.Equal(out[:32], in[:32]) || f.Sections[1].Offset != 4096 {
		t.Error("the segment moved")
	}
	if _, err := tryRewrite(in, Edits{Remove: isName(".text")}); err == nil || !strings.Contains(err.Error(), "a program header covers it") {
		t.Errorf("got %v", err)
	}
}

func TestUnwritable(t *testing.T) {
	for _, data := range []string{"", "text", "\x00asm\x01\x00\x00\x00", "BC\xc0\xde"} {
		if _, err := tryRewrite([]byte(data), Edits{}); !errors.Is(err, ErrUnwritable) {
			t.Errorf("%q: got %v", data, err)
		}
	}
}

// TestKeepsStrings tests that an unreferenced string table keeps its contents.
func TestKeepsStrings(t *testing.T) {
	spec := elfSpec{header: elfHeader{is64: true, order: binary.LittleEndian}, sections: []specSection{
		{".stabstr", elf.SectionHeader{Type: elf.ShtStrtab, Align: 1}, []byte("\x00one\x00two\x00")},
	}}
	f, err := Parse(rewrite(t, spec.bytes(), Edits{}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Data(1); err != nil || string(got) != "\x00one\x00two\x00" {
		t.Errorf("got %q, %v", got, err)
	}
}

// failing is a Sink that fails at the nth call.
type failing struct{ n int }

var errFull = errors.New("full")

func (f *failing) step() error {
	if f.n--; f.n < 0 {
		return errFull
	}
	return nil
}
func (f *failing) Write(p []byte) (int, error)    { return len(p), f.step() }
func (f *failing) Append(c content.Content) error { return f.step() }
func (f *failing) Zeros(n int64) error            { return f.step() }

func TestSinkErrors(t *testing.T) {
	in := content.Memory(fixture(t, "x86_64.o"))
	for n := range 8 {
		if err := Rewrite(in, Edits{}, &failing{n}); err != errFull {
			t.Errorf("after %d calls: got %v", n, err)
		}
	}
}

func TestCOFFNames(t *testing.T) {
	for _, off := range []uint32{4, 9_999_999, 10_000_000, 1<<32 - 1} {
		name := encodeCOFFName(off)
		got, ok := coffNameOffset(bytes.TrimRight(name[1:], "\x00"))
		if !ok || got != uint64(off) {
			t.Errorf("%d: %q gives %d, %v", off, name, got, ok)
		}
	}
	for _, bad := range []string{"", "x", "12x", "/?"} {
		if _, ok := coffNameOffset([]byte(bad)); ok {
			t.Errorf("%q is an offset", bad)
		}
	}
}

func TestCREL(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		is64 := rapid.Bool().Draw(rt, "is64")
		relocs := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) crel {
			r := crel{
				rapid.Uint64Range(0, 1<<40).Draw(rt, "offset"), rapid.Uint32Range(0, 1<<20).Draw(rt, "symbol"),
				rapid.Uint32().Draw(rt, "type"), uint64(rapid.Int64().Draw(rt, "addend")),
			}
			if !is64 {
				r.offset &= 0xffffffff
				r.addend = uint64(int64(int32(r.addend)))
			}
			return r
		})).Draw(rt, "relocs")
		got, ok := decodeCREL(encodeCREL(relocs, is64), is64)
		if !is64 {
			for i := range got {
				got[i].addend = uint64(int64(int32(got[i].addend)))
			}
		}
		if !ok || !slices.Equal(got, relocs) {
			rt.Fatalf("got %v, want %v", got, relocs)
		}
	})
	for _, bad := range []string{"", "\xff", "\x0c", "\x0c\x07\x01", "\xff\xff\xff\xff\x0f"} {
		if _, ok := decodeCREL([]byte(bad), true); ok {
			t.Errorf("%q decodes", bad)
		}
	}
}

// excluded reports whether the linker drops a section: SHF_EXCLUDE in ELF,
// IMAGE_SCN_LNK_REMOVE in COFF.
func excluded(f *File, i int) bool {
	if f.coff != nil {
		return f.Sections[i].Flags&scnLnkRemove != 0
	}
	return f.Sections[i].Flags&elf.ShfExclude != 0
}
