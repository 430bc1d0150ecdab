package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

const linux = "x86_64-unknown-linux-gnu"

func TestRegister(t *testing.T) {
	one := packedImage(t, "gfx1", "one")
	both := append(bytes.Clone(one), packedImage(t, "gfx2", "second")...)
	second := bytesOf(t, func(out content.Sink) error {
		return offloadbinary.Write(out, 2, []offloadbinary.Image{{Content: content.Memory([]byte("a"))}, {Content: content.Memory([]byte("bcd"))}})
	})
	uses := bytesOf(t, func(out content.Sink) error {
		const x8664 = 62
		b := object.NewBuilder(x8664)
		text := b.Section(object.BuilderSection{Name: ".text", Type: 1, Flags: 6, Align: 4, Content: content.Memory(make([]byte, 8))})
		b.Relocate(text, 0, 1, b.Symbol(object.BuilderSymbol{Name: "__hip_fatbin_mine", Bind: elf.BindGlobal}), 0)
		return b.Write(out)
	})
	s, dir := newSession(t, map[string][]byte{
		"uses": uses,
		"both": both, "two": second, "bare": []byte("bare image"), "zipped": deflated(t, "inflated"), "bundle": bundled(t, "gfx3"),
		"host.o": hostObject(t, ".offloading.entry.f", "other"),
	})
	register1 := func(opt RegisterOptions) []byte {
		t.Helper()
		if opt.Triple == "" {
			opt.Triple = linux
		}
		opt.Output = "out.o"
		if err := s.Register(context.Background(), opt); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "out.o"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	made := register1(RegisterOptions{Kind: offloadbinary.OpenMP, Images: []string{"both", "two", "bare", "zipped"}, KeepEntries: []string{"host.o"}})
	want := []string{string(both), string(second), "bare image", "inflated"}
	if diff := cmp.Diff(want, sectionData(t, made, ".llvm.offloading")); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	const record = 32
	if n := len(sectionData(t, made, ".data.rel.ro")[0]) / record; n != 6+1 {
		t.Errorf("%d records for 6 images and the descriptor", n)
	}
	if names := symbolNames(t, made); !strings.Contains(names, " .offloading.entry.f ") || strings.Contains(names, " other ") {
		t.Errorf("symbols are %s", names)
	}

	made = register1(RegisterOptions{Kind: offloadbinary.HIP, Triple: "aarch64-linux-gnu", Images: []string{"bundle"}, Entries: "entries_of_mine"})
	if got := sectionData(t, made, ".hip_fatbin"); len(got) != 1 || got[0] != string(bundled(t, "gfx3")) {
		t.Errorf("the fat binary is %q", got)
	}
	if names := symbolNames(t, made); !strings.Contains(names, " __stop_entries_of_mine ") {
		t.Errorf("symbols are %s", names)
	}
	register1(RegisterOptions{Kind: offloadbinary.OpenMP, Images: []string{"bare"}, Relocatable: true})

	made = register1(RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"bundle"}, Symbol: "__hip_fatbin_mine"})
	if got := sectionData(t, made, ".hip_fatbin"); len(got) != 1 || got[0] != string(bundled(t, "gfx3")) {
		t.Errorf("the fat binary is %q", got)
	}
	if names := symbolNames(t, made); !strings.Contains(names, " __hip_fatbin_mine ") || strings.Contains(names, "Register") {
		t.Errorf("symbols are %s", names)
	}
	made = register1(RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"bundle"}, Symbol: "__hip_fatbin_mine", ReferencedBy: "uses"})
	if got := sectionData(t, made, ".hip_fatbin"); len(got) != 1 {
		t.Errorf("the host object refers to the fat binary, of which there are %d", len(got))
	}
	made = register1(RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"bundle"}, Symbol: "__hip_fatbin_other", ReferencedBy: "uses"})
	if got, names := sectionData(t, made, ".hip_fatbin"), symbolNames(t, made); len(got) != 0 || strings.Contains(names, "fatbin") {
		t.Errorf("the host object does not refer to the fat binary, but the object has %d and the symbols %s", len(got), names)
	}
	made = register1(RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"bundle"}, Define: []string{"device link of //a"}})
	if names := symbolNames(t, made); !strings.Contains(names, " device link of //a ") {
		t.Errorf("symbols are %s", names)
	}
}

// windows is a host whose objects are COFF.
const windows = "x86_64-pc-windows-msvc"

func TestRegisterForWindows(t *testing.T) {
	s, dir := newSession(t, map[string][]byte{"package": packedImage(t, "gfx1", "one")})
	for _, kind := range []offloadbinary.OffloadKind{offloadbinary.OpenMP, offloadbinary.SYCL} {
		for _, triple := range []string{windows, "x86_64-w64-windows-gnu"} {
			err := s.Register(context.Background(), RegisterOptions{Kind: kind, Triple: triple, Images: []string{"package"}, Output: "out.obj"})
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(dir, "out.obj"))
			if err != nil {
				t.Fatal(err)
			}
			if format := object.Identify(data); format != object.COFFObject {
				t.Errorf("%s: %s", triple, format)
			}
		}
	}
}

func TestRegisterErrors(t *testing.T) {
	s, dir := newSession(t, map[string][]byte{
		"package": packedImage(t, "gfx1", "one"), "cut": packedImage(t, "gfx1", "one")[:100], "empty": nil, "image": []byte("\x50\xed\x55\xba image"), "a.hip": []byte("__global__ void f() {}\n"), "text": []byte("text"),
		"none": bytesOf(t, func(out content.Sink) error { return offloadbinary.Write(out, 2, nil) }),
	})
	tests := []struct {
		opt  RegisterOptions
		want string
	}{
		{RegisterOptions{Kind: offloadbinary.OpenMP, Images: []string{"cut"}}, "cut: offload binary at byte 0x0: its size of 152 bytes passes the end at 100"},
		{RegisterOptions{Kind: offloadbinary.OpenMP, Images: []string{"empty"}}, "empty: found an empty file, expected a device image"},
		{RegisterOptions{Kind: offloadbinary.OpenMP, Images: []string{"none"}}, "none: an offload binary without images"},
		{RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"package"}}, "package: found an offload binary, expected a fat binary, which the runtime of hip loads"},
		{RegisterOptions{Kind: offloadbinary.CUDA, Images: []string{"image", "image"}}, "cuda: 2 images, expected one fat binary"},
		{RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"missing"}}, "'missing': No such file or directory"},
		{RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"image"}, KeepEntries: []string{"text"}}, "text: not an object file: found unknown, expected ELF or COFF"},
		{RegisterOptions{Kind: offloadbinary.HIP, Images: []string{"image"}, Entries: "a.b"}, `section "a.b" for offload entries: linkers define its start and end only if it is a C identifier`},
	}
	tests = append(tests, []struct {
		opt  RegisterOptions
		want string
	}{
		{RegisterOptions{Kind: offloadbinary.HIP, Triple: linux, Images: []string{"a.hip"}, Check: true}, "a.hip: found no device code, expected a bundle or a code object (or a cubin, PTX or SPIR-V)"},
		{RegisterOptions{Kind: offloadbinary.SYCL, Triple: linux, Images: []string{"image"}}, "image: not an offload binary: SYCL registers the outputs of clang-sycl-linker"},
		{RegisterOptions{Kind: offloadbinary.SYCL, Triple: linux, Images: []string{"cut"}}, "cut: offload binary at byte 0x0: its size of 152 bytes passes the end at 100"},
		{RegisterOptions{Kind: offloadbinary.HIP, Triple: windows, Images: []string{"image"}, Relocatable: true}, "relocatable registration requires ELF, found COFF"},
		{RegisterOptions{Kind: offloadbinary.HIP, Triple: windows, Images: []string{"image"}, Symbol: "__hip_fatbin"}, `triple "x86_64-pc-windows-msvc": a fat binary with a symbol requires ELF`},
	}...)
	for _, triple := range []string{"aarch64-pc-windows-msvc", "i686-pc-windows-msvc", "arm64-apple-macos", "aarch64_be-linux-gnu", "x86_64-linux-gnux32", "aarch64-linux-gnu_ilp32", "i386-linux-gnu", ""} {
		tests = append(tests, struct {
			opt  RegisterOptions
			want string
		}{RegisterOptions{Kind: offloadbinary.HIP, Triple: triple, Images: []string{"image"}},
			`triple "` + triple + `": expected x86-64 or AArch64 ELF, such as x86_64-unknown-linux-gnu, or x86-64 Windows`})
	}
	for i, test := range tests {
		if test.opt.Triple == "" && i < 8 {
			test.opt.Triple = linux
		}
		test.opt.Output = "out.o"
		err := s.Register(context.Background(), test.opt)
		if err == nil || err.Error() != test.want {
			t.Errorf("got error %v, want %s", err, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out.o")); err == nil {
		t.Error("a failure left an output")
	}
}

func TestEmbed(t *testing.T) {
	one, two := packedImage(t, "gfx1", "one"), packedImage(t, "gfx2", "second")
	s, dir := newSession(t, map[string][]byte{
		"plain.o": elfObject(t, ".text", "code"), "fat.o": elfObject(t, ".llvm.offloading:offloading", string(one)), "objcopy.o": elfObject(t, ".llvm.offloading", string(one)),
		"wrong.o": elfObject(t, ".llvm.offloading", "not an offload binary"),
		"one":     one, "two": two, "empty": nil,
	})
	embed := func(input string, packages ...string) error {
		return s.Embed(context.Background(), EmbedOptions{Input: input, Binaries: packages, Output: "out.o"})
	}
	for _, test := range []struct {
		input    string
		packages []string
		want     []string
	}{
		{"plain.o", []string{"one"}, []string{string(one)}},
		{"plain.o", []string{"two", "one"}, []string{string(two), string(one)}},
		{"fat.o", []string{"two"}, []string{string(one), string(two)}},
		{"objcopy.o", []string{"two"}, []string{string(one), string(two)}},
	} {
		if err := embed(test.input, test.packages...); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "out.o"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, sectionData(t, data, ".llvm.offloading")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.input, diff)
		}
		file, err := object.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range file.Sections {
			if string(section.Name) == ".llvm.offloading" && (section.Type != elf.ShtOffloading || section.Align != 8) {
				t.Errorf("%s: section of type %x, alignment %d", test.input, section.Type, section.Align)
			}
		}
	}
	os.Remove(filepath.Join(dir, "out.o"))
	for want, err := range map[string]error{
		"plain.o: found an ELF file, expected an offload binary":                    embed("fat.o", "plain.o"),
		"empty: found an empty file, expected an offload binary":                    embed("fat.o", "empty"),
		"one: found offload package, expected an ELF or COFF object":                embed("one", "two"),
		"wrong.o: section .llvm.offloading: found text, expected an offload binary": embed("wrong.o", "two"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out.o")); err == nil {
		t.Error("a failure left an output")
	}
}
