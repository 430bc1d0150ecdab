package flows

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"strings"
	"testing"
)

// printer is a program that writes data to standard output, and the alignment of its address to
// standard error.
const printer = `#include "kernels.h"
#include <stdio.h>
int main() {
  fwrite(kernels, 1, kernels_size, stdout);
  return (unsigned long)kernels % 4096 ? 1 : 0;
}
`

// codeObject compiles a kernel and returns its code object, kernel.co.
func (f *flow) codeObject() []byte {
	f.Helper()
	f.write("data.cl", []byte("kernel void clear(global int *p) { *p = 0; }\n"))
	f.clang("--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib", "-o", "kernel.co", "data.cl")
	return f.read("kernel.co")
}

func (f *flow) data(triple, output string) {
	f.Helper()
	f.offload("cc-data", "--symbol=kernels", "--align=4096", "--triple="+triple, "--output="+output, "--header=kernels.h", "kernel.co")
}

// TestDataOfPrograms links the data of offload cc-data into programs of both architectures, which print it.
func TestDataOfPrograms(t *testing.T) {
	f := newFlow(t)
	want := f.codeObject()
	f.write("printer.c", []byte(printer))
	for _, test := range []struct {
		triple, compiler string
		run              []string
	}{
		{"x86_64-unknown-linux-gnu", "gcc", nil},
		{"aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", []string{"qemu-aarch64"}},
	} {
		f.data(test.triple, "data.o")
		f.run(test.compiler, "-static", "-o", "printer", "printer.c", "data.o")
		command := append(test.run, f.path("printer"))
		if got := f.run(command[0], command[1:]...); got != string(want) {
			t.Errorf("%s: the program prints %d bytes, not the %d of the code object", test.triple, len(got), len(want))
		}
	}
}

// TestDataOfWindows links the data into a DLL that exports it and into a program, and reads it from
// both.
func TestDataOfWindows(t *testing.T) {
	f := newFlow(t)
	want := f.codeObject()
	f.data("x86_64-pc-windows-msvc", "data.obj")
	f.tool("lld-link", "/dll", "/noentry", "/machine:x64", "/export:kernels,DATA", "/export:kernels_size,DATA", "/out:data.dll", "data.obj")
	image := newImage(t, f.read("data.dll"))
	exports := image.exports(t)
	at := exports["kernels"]
	if at == 0 || at%4096 != 0 {
		t.Fatalf("kernels is at %#x, want an address that is a multiple of 4096; the exports are %v", at, exports)
	}
	if size := binary.LittleEndian.Uint64(image.at(t, exports["kernels_size"], 8)); size != uint64(len(want)) {
		t.Fatalf("kernels_size is %d, want %d", size, len(want))
	}
	if !bytes.Equal(image.at(t, at, len(want)), want) {
		t.Error("kernels is not the code object")
	}

	// The program refers to both by the declarations of the header.
	f.write("start.c", []byte("#include \"kernels.h\"\nconst unsigned char *const data = kernels;\nconst size_t *const size = &kernels_size;\nint start(void) { return (int)(*size + *data); }\n"))
	f.write("stddef.h", []byte("typedef unsigned long long size_t;\n"))
	f.clang("--target=x86_64-pc-windows-msvc", "-nostdinc", "-I.", "-c", "start.c", "-o", "start.obj")
	f.tool("lld-link", "/entry:start", "/subsystem:console", "/nodefaultlib", "/machine:x64", "/out:start.exe", "start.obj", "data.obj")
	if image := newImage(t, f.read("start.exe")); !bytes.Contains(image.contents(t), want) {
		t.Error("the program does not contain the code object")
	}
	got := f.fails(f.toolPath("lld-link"), "/entry:start", "/subsystem:console", "/nodefaultlib", "/machine:x64", "/out:without.exe", "start.obj")
	for _, name := range []string{"kernels", "kernels_size"} {
		if !strings.Contains(got, "undefined symbol: "+name) {
			t.Errorf("without the object, lld-link does not miss %s:\n%s", name, got)
		}
	}
}

// peImage is a linked PE file.
type peImage struct {
	*pe.File
}

func newImage(t *testing.T, data []byte) peImage {
	t.Helper()
	file, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return peImage{file}
}

// at returns n bytes at an address relative to the image.
func (i peImage) at(t *testing.T, address uint32, n int) []byte {
	t.Helper()
	for _, section := range i.Sections {
		data, err := section.Data()
		if err != nil {
			t.Fatal(err)
		}
		if start := int(address) - int(section.VirtualAddress); start >= 0 && start+n <= len(data) {
			return data[start : start+n]
		}
	}
	t.Fatalf("no section has %d bytes at %#x", n, address)
	return nil
}

// contents returns the bytes of all sections.
func (i peImage) contents(t *testing.T) (all []byte) {
	t.Helper()
	for _, section := range i.Sections {
		data, err := section.Data()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// exports returns the addresses of exported symbols.
func (i peImage) exports(t *testing.T) map[string]uint32 {
	t.Helper()
	header, ok := i.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		t.Fatal("not a 64-bit image")
	}
	directory := i.at(t, header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress, 40)
	word := func(data []byte, n int) uint32 { return binary.LittleEndian.Uint32(data[4*n:]) }
	count := int(word(directory, 6))
	functions := i.at(t, word(directory, 7), 4*int(word(directory, 5)))
	names := i.at(t, word(directory, 8), 4*count)
	ordinals := i.at(t, word(directory, 9), 2*count)
	exports := map[string]uint32{}
	for n := range count {
		name := i.at(t, word(names, n), 1)
		for size := 1; name[size-1] != 0; size++ {
			name = i.at(t, word(names, n), size+1)
		}
		exports[string(name[:len(name)-1])] = word(functions, int(binary.LittleEndian.Uint16(ordinals[2*n:])))
	}
	if len(exports) != count {
		t.Fatalf("%d of %d exports have names of their own", len(exports), count)
	}
	return exports
}
