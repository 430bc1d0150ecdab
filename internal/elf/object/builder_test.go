package object

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// build makes an object with something of everything.
func build(t testing.TB, machine uint16) []byte {
	b := NewBuilder(machine)
	text := b.Section(BuilderSection{Name: ".text.startup", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfExec, Align: 16, Content: content.Memory(make([]byte, 32))})
	image := b.Section(BuilderSection{Name: ".hip_fatbin", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfRetain, Align: 4096, Content: content.Memory([]byte("image"))})
	bss := b.Section(BuilderSection{Name: ".bss", Type: elf.ShtNobits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: 8, Size: 8})
	b.Section(BuilderSection{Name: ".note.GNU-stack", Type: elf.ShtProgbits})
	global := b.Symbol(BuilderSymbol{Name: "handle", Section: bss, Size: 8, Bind: elf.BindGlobal, Type: elf.TypeObject, Visibility: elf.VisHidden})
	local := b.Symbol(BuilderSymbol{Name: ".image", Section: image, Size: 5, Type: elf.TypeObject})
	start := b.Symbol(BuilderSymbol{Name: "register", Section: text, Value: 4, Type: elf.TypeFunc, Bind: elf.BindWeak})
	extern := b.Symbol(BuilderSymbol{Name: "atexit", Bind: elf.BindGlobal})
	b.Relocate(text, 8, 2, extern, -4)
	b.Relocate(text, 16, 1, local, 0)
	b.Relocate(image, 0, 1, start, 0)
	b.Relocate(text, 24, 1, global, 0)
	var out content.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBuilder(t *testing.T) {
	for _, machine := range []uint16{elf.MachineX8664, elf.MachineAArch64} {
		data := build(t, machine)
		if !bytes.Equal(data, build(t, machine)) {
			t.Error("two builds differ")
		}
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"", ".text.startup", ".hip_fatbin", ".bss", ".note.GNU-stack", ".symtab", ".rela.text.startup", ".rela.hip_fatbin", ".strtab"}
		if d := cmp.Diff(want, sectionNames(f)); d != "" {
			t.Error(d)
		}
		if f.Machine != machine || f.Format != ELFRelocatable || f.elf.osabi != 3 {
			t.Errorf("got %+v", f.elf)
		}
		if s := f.Sections[2]; s.Offset%4096 != 0 || s.Align != 4096 {
			t.Errorf("got %+v", s)
		}
		var names []string
		for s, err := range f.Symbols() {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, string(s.Name))
		}
		if d := cmp.Diff([]string{"", ".image", "handle", "register", "atexit"}, names); d != "" {
			t.Error(d)
		}
		r := elfRewriter{f: f, h: f.elf}
		relocs, err := f.Data(6)
		if err != nil || len(relocs) != 72 {
			t.Fatalf("got %d bytes, %v", len(relocs), err)
		}
		if r.relocSymbol(relocs) != 4 || r.relocSymbol(relocs[24:]) != 1 || r.relocSymbol(relocs[48:]) != 2 {
			t.Error("relocations refer to other symbols")
		}
		if f.Sections[5].Info != 2 {
			t.Errorf("got %d local symbols, want 2", f.Sections[5].Info)
		}
		// A rewrite keeps it whole.
		settle(t, data)
	}
}

// TestParts makes a section of contents with gaps between them.
func TestParts(t *testing.T) {
	section := BuilderSection{
		Name: ".image", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 16, Content: content.Memory([]byte("head")),
		Parts: []content.Part{{Offset: 4, Content: content.Memory([]byte("er"))}, {Offset: 16, Content: content.Memory([]byte("part"))}},
	}
	want := "header\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00part"
	after := BuilderSection{Name: ".after", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 1, Content: content.Memory([]byte("after"))}
	for name, b := range map[string]interface {
		Section(BuilderSection) SectionID
		Write(content.Sink) error
	}{"ELF": NewBuilder(elf.MachineX8664), "COFF": new(COFFBuilder)} {
		b.Section(section)
		b.Section(after)
		var out content.Buffer
		if err := b.Write(&out); err != nil {
			t.Fatal(err)
		}
		f, err := Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for i := range f.Sections {
			data, err := f.Data(i)
			if err != nil {
				t.Fatal(err)
			}
			found[string(f.Sections[i].Name)] = string(data)
		}
		if found[".image"] != want || found[".after"] != "after" {
			t.Errorf("%s: sections %q", name, found)
		}
	}
}

func TestBuilderErrors(t *testing.T) {
	b := NewBuilder(elf.MachineX8664)
	b.Section(BuilderSection{Name: ".bss", Type: elf.ShtNobits, Content: content.Memory([]byte("x"))})
	if err := b.Write(&content.Buffer{}); err == nil {
		t.Error("a section without content has some")
	}
}
