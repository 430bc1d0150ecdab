package link

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

func TestIsolate(t *testing.T) {
	data := fixture.Merged(t, object.BuilderSection{
		Name: ".llvm.offloading.relocatable", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory([]byte("linked")),
	})
	s, dir := newSession(t, map[string][]byte{"merged.o": data, "plain.o": fixture.ELF(t, ".text", "code")})
	suffixes := map[string]bool{}
	for _, suffix := range []string{"", "", "math"} {
		if err := Isolate(context.Background(), s, IsolateOptions{Input: "merged.o", Output: "out.o", Suffix: suffix}); err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(filepath.Join(dir, "out.o"))
		if err != nil {
			t.Fatal(err)
		}
		names := fixture.SymbolNames(t, out)
		match := regexp.MustCompile(` __start_llvm_offload_entries_([0-9a-z]+) `).FindStringSubmatch(names)
		if match == nil || suffix != "" && match[1] != suffix {
			t.Fatalf("suffix %q: symbols are %s", suffix, names)
		}
		suffixes[match[1]] = true
		if !strings.Contains(names, " __stop_llvm_offload_entries_"+match[1]+" ") {
			t.Errorf("symbols are %s", names)
		}
		if got := fixture.SectionData(t, out, "llvm_offload_entries_"+match[1]); len(got) != 1 || len(got[0]) != 56 {
			t.Errorf("entries are %q", got)
		}
		if got := fixture.SectionData(t, out, ".rela"+"llvm_offload_entries_"+match[1]); len(got) != 1 {
			t.Errorf("%d sections of relocations for the entries", len(got))
		}
		if fixture.SectionData(t, out, ".llvm.offloading") != nil {
			t.Error("images to be linked are left")
		}
		if got := fixture.SectionData(t, out, ".llvm.offloading.relocatable"); len(got) != 1 || got[0] != "linked" {
			t.Errorf("linked images are %q", got)
		}
	}
	if err := Isolate(context.Background(), s, IsolateOptions{Input: "plain.o", Output: "out.o", Suffix: "math"}); err != nil {
		t.Errorf("an object without entries: %v", err)
	}
	if len(suffixes) != 2 {
		t.Errorf("suffixes %v, expected the same one from the same content", suffixes)
	}
}

func TestIsolateErrors(t *testing.T) {
	good := fixture.Merged(t, object.BuilderSection{Name: ".other", Type: elf.ShtProgbits})
	s, dir := newSession(t, map[string][]byte{
		"good.o": good, "plain.o": fixture.ELF(t, ".text", "code"), "text": []byte("text"), "cut.o": good[:100],
		"registered.o": fixture.Merged(t, object.BuilderSection{
			Name: ".llvm.offloading", Type: elf.ShtOffloading, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory([]byte("linked")),
		}),
	})
	for _, test := range []struct{ input, suffix, want string }{
		{"plain.o", "", "plain.o: no section llvm_offload_entries: nothing to isolate"},
		{"text", "", "text: found a file of an unknown format, expected a relocatable ELF object"},
		{"good.o", "a-b", `good.o: suffix "a-b": linkers define the bounds of a section only if its name is a C identifier`},
		{"registered.o", "", "registered.o: section .llvm.offloading has registered images, which a later device link would link and register again"},
		{"cut.o", "", "cut.o: "},
	} {
		err := Isolate(context.Background(), s, IsolateOptions{Input: test.input, Output: "out.o", Suffix: test.suffix})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %s", test.input, err, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out.o")); err == nil {
		t.Error("a failure left an output")
	}
}

// TestIsolateFatBinary has the fat binary of host code without -fgpu-rdc get a
// name of its own.
func TestIsolateFatBinary(t *testing.T) {
	for _, test := range []struct{ name, suffix, want string }{
		{"__hip_fatbin", "math", " __hip_fatbin_math "},
		{"__hip_fatbin_7b27b17f22a5e484", "math", " __hip_fatbin_math "},
		{"__hip_module_ctor", "math", " __hip_module_ctor "},
	} {
		b := object.NewBuilder(elf.MachineX8664)
		section := b.Section(object.BuilderSection{Name: ".hipFatBinSegment", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfWrite, Content: content.Memory(make([]byte, 24))})
		b.Relocate(section, 8, 1, b.Symbol(object.BuilderSymbol{Name: test.name, Bind: elf.BindGlobal}), 0)
		b.Symbol(object.BuilderSymbol{Name: "__hip_fatbin_wrapper", Section: section, Size: 24})
		s, dir := newSession(t, map[string][]byte{"host.o": fixture.Bytes(t, func(out content.Sink) error { return b.Write(out) })})
		if err := Isolate(context.Background(), s, IsolateOptions{Input: "host.o", Output: "out.o", Suffix: test.suffix}); err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(filepath.Join(dir, "out.o"))
		if err != nil {
			t.Fatal(err)
		}
		names := fixture.SymbolNames(t, out)
		if !strings.Contains(names, test.want) || !strings.Contains(names, " __hip_fatbin_wrapper ") {
			t.Errorf("%s: symbols are %s", test.name, names)
		}
	}
}
