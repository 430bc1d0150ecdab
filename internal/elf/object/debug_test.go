package object

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// The two files of SplitDebug; tests/compilers compares them with those of llvm-objcopy.
func TestSplitDebug(t *testing.T) {
	spec := elfSpec{header: elfHeader{is64: true, order: binary.LittleEndian, typ: elf.EtDyn, machine: elf.MachineAMDGPU}, sections: []specSection{
		{".note", elf.SectionHeader{Type: elf.ShtNote, Flags: elf.ShfAlloc, Align: 4}, []byte("note")},
		{".text", elf.SectionHeader{Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 4, Addr: 4096}, []byte("code")},
		{".debug_line", elf.SectionHeader{Type: elf.ShtProgbits, Align: 1}, []byte("lines")},
		{".comment", elf.SectionHeader{Type: elf.ShtProgbits, Align: 1}, []byte("clang")},
	}}
	split := func(in []byte) (out, debug []byte, err error) {
		var o, d content.Buffer
		err = SplitDebug(content.Memory(in), "a.debug", &o, &d)
		return o.Bytes(), d.Bytes(), err
	}
	contents := func(data []byte) map[string]string {
		t.Helper()
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for i := range f.Sections {
			section, err := f.Data(i)
			if err != nil {
				t.Fatal(err)
			}
			if s := &f.Sections[i]; len(s.Name) > 0 {
				all[string(s.Name)] = string(section)
			}
		}
		return all
	}
	out, debug, err := split(spec.bytes())
	if err != nil {
		t.Fatal(err)
	}
	got := contents(out)
	if link := got[debugLink]; link != "a.debug\x00"+string(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(debug))) || got[".text"] != "code" || got[".comment"] != "clang" {
		t.Errorf("without debug information: %q", got)
	}
	if _, found := got[".debug_line"]; found {
		t.Error("the debug information is still there")
	}
	if got := contents(debug); got[".debug_line"] != "lines" || got[".text"] != "" || got[".note"] != "note" || got[".comment"] != "clang" {
		t.Errorf("debug information: %q", got)
	}
	// Without debug information, the file stays the same, also if it is split again.
	if again, _, err := split(out); err != nil || !bytes.Equal(again, out) {
		t.Errorf("split again: %v", err)
	}
	spec.header.typ = elf.EtRel
	for _, in := range [][]byte{spec.bytes(), []byte("text")} {
		if _, _, err := split(in); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%.8q: got %v", in, err)
		}
	}
}
