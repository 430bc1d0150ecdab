package engine

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/elf/object"
)

const ptxText = "// comment\n.version 7.0\n.target sm_70\n"

// dataOf returns the contents of a data symbol in an object, and the alignment of its section.
func dataOf(t *testing.T, name string, contents []byte, coff bool) (data string, align uint64) {
	t.Helper()
	file, err := object.Parse(contents)
	if err != nil {
		t.Fatal(err)
	}
	for symbol, err := range file.Symbols() {
		if err != nil {
			t.Fatal(err)
		}
		if string(symbol.Name) != name {
			continue
		}
		section, err := file.Data(symbol.Section)
		if err != nil {
			t.Fatal(err)
		}
		if symbol.Kind != object.Defined || !symbol.Global {
			t.Errorf("%s is %+v", name, symbol)
		}
		size := symbol.Size
		if coff { // which keeps no sizes
			size = uint64(len(section))
		}
		return string(section[:size]), file.Sections[symbol.Section].Align
	}
	t.Fatalf("%s is not there", name)
	return "", 0
}

func TestData(t *testing.T) {
	fat := bundled(t, "gfx3")
	s, dir := newSession(t, map[string][]byte{"fat": fat, "a.ptx": []byte(ptxText)})
	for _, triple := range []string{linux, "aarch64-linux-gnu", windows} {
		err := s.Data(context.Background(), DataOptions{Triple: triple, Symbol: "kernels", Align: 4096, Input: "fat", Output: "out.o", Header: "out.h"})
		if err != nil {
			t.Fatal(err)
		}
		contents, err := os.ReadFile(filepath.Join(dir, "out.o"))
		if err != nil {
			t.Fatal(err)
		}
		coff := triple == windows
		if got := object.Identify(contents) == object.COFFObject; got != coff {
			t.Errorf("%s: COFF is %t", triple, got)
		}
		if data, align := dataOf(t, "kernels", contents, coff); data != string(fat) || !coff && align != 4096 {
			t.Errorf("%s: the data is %q, aligned to %d", triple, data, align)
		}
		if size, _ := dataOf(t, "kernels_size", contents, coff); binary.LittleEndian.Uint64([]byte(size)) != uint64(len(fat)) {
			t.Errorf("%s: the size is %q, expected %d", triple, size, len(fat))
		}
		header, err := os.ReadFile(filepath.Join(dir, "out.h"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(header), "extern const unsigned char kernels[];\nextern const size_t kernels_size;") {
			t.Errorf("the header is\n%s", header)
		}
	}

	// A zero byte ends PTX, and is not counted.
	if err := s.Data(context.Background(), DataOptions{Triple: linux, Symbol: "text", Input: "a.ptx", Output: "out.o"}); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(filepath.Join(dir, "out.o"))
	if err != nil {
		t.Fatal(err)
	}
	if data, align := dataOf(t, "text", contents, false); data != ptxText || align != 16 || !strings.Contains(string(contents), ptxText+"\x00") {
		t.Errorf("the data is %q, aligned to %d", data, align)
	}
}

func TestDataErrors(t *testing.T) {
	s, dir := newSession(t, map[string][]byte{
		"fat": bundled(t, "gfx3"), "empty": nil, "a.hip": []byte("__global__ void f() {}\n"), "host.o": hostObject(t), "cut": []byte("\x7fELF\x02\x01\x01"),
		"lfs": []byte("version https://git-lfs.github.com/spec/v1\n"), "package": packedImage(t, "gfx1", "one"), "a.bc": []byte("BC\xc0\xde"),
	})
	for _, test := range []struct {
		opt  DataOptions
		want string
	}{
		{DataOptions{Symbol: "1a"}, `symbol "1a" is not a C identifier`},
		{DataOptions{Symbol: ""}, `symbol "" is not a C identifier`},
		{DataOptions{Symbol: "a-b"}, `symbol "a-b" is not a C identifier`},
		{DataOptions{Symbol: "register"}, `symbol "register" is a keyword of C or C++`},
		{DataOptions{Symbol: "a", Triple: "riscv64-linux-gnu"}, `triple "riscv64-linux-gnu"`},
		{DataOptions{Symbol: "a", Align: 24}, "fat: alignment 24 is not a power of two"},
		{DataOptions{Symbol: "a", Align: 16384, Triple: windows}, "fat: alignment 16384 is more than 8192, the largest in COFF"},
		{DataOptions{Symbol: "a", Input: "empty"}, "empty: found an empty file, expected a bundle or a code object"},
		{DataOptions{Symbol: "a", Input: "a.hip"}, "a.hip: found no device code, expected a bundle or a code object"},
		{DataOptions{Symbol: "a", Input: "host.o"}, "host.o: found ELF relocatable object for machine 62, which is not a GPU, expected a bundle or a code object"},
		{DataOptions{Symbol: "a", Input: "cut"}, "cut: "},
		{DataOptions{Symbol: "a", Input: "lfs"}, "lfs: found a Git LFS pointer, expected a bundle or a code object (or a cubin, PTX or SPIR-V); run git lfs pull"},
		{DataOptions{Symbol: "a", Input: "package"}, "package: found an offload binary, expected a bundle or a code object"},
		{DataOptions{Symbol: "a", Input: "a.bc"}, "a.bc: found LLVM bitcode, expected a bundle or a code object"},
	} {
		test.opt.Output, test.opt.Header = "out.o", "out.h"
		if test.opt.Input == "" {
			test.opt.Input = "fat"
		}
		if test.opt.Triple == "" {
			test.opt.Triple = linux
		}
		if err := s.Data(context.Background(), test.opt); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, expected %s", err, test.want)
		}
		if entries, _ := filepath.Glob(filepath.Join(dir, "out.*")); len(entries) > 0 {
			t.Errorf("%s: %v is there", test.want, entries)
		}
	}
}
