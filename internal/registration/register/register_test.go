package register

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

func write(t *testing.T, o *Object) []byte {
	t.Helper()
	var first, second content.Buffer
	for _, b := range []*content.Buffer{&first, &second} {
		if err := o.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatal("written twice, the object differs")
	}
	return first.Bytes()
}

// sections lists the sections up to the symbol table.
func sections(t *testing.T, data []byte) []string {
	t.Helper()
	f, err := object.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, s := range f.Sections[1:] {
		if string(s.Name) == ".symtab" {
			break
		}
		list = append(list, fmt.Sprintf("%s type %x flags %x align %d size %d", s.Name, s.Type, s.Flags, s.Align, s.Size))
	}
	return list
}

func symbols(t *testing.T, data []byte) (list []string) {
	t.Helper()
	f, err := object.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for s, err := range f.Symbols() {
		if err != nil {
			t.Fatal(err)
		}
		if s.Special {
			continue
		}
		where := "undefined"
		if s.Kind == object.Defined && s.Section >= 0 {
			where = string(f.Sections[s.Section].Name)
		}
		bind := "local"
		if s.Global {
			bind = "global"
		}
		if s.Weak {
			bind = "weak"
		}
		list = append(list, fmt.Sprintf("%s %s %s+%d", bind, s.Name, where, s.Value))
	}
	return list
}

func image(size int) Image {
	return Image{Content: content.Memory(bytes.Repeat([]byte("image"), size/5+1)[:size])}
}

func TestOpenMP(t *testing.T) {
	first, second := image(100), image(40)
	first.Devices = []Range{{8, 16}, {64, 36}}
	data := write(t, &Object{
		Machine:       elf.MachineX8664,
		Registrations: []Registration{{Kind: offloadbinary.OpenMP, Images: []Image{first, second}}},
		Keep:          []string{".offloading.entry.f"},
	})
	want := []string{
		"llvm_offload_entries type 1 flags 200003 align 8 size 0",
		".llvm.offloading type 6fff4c0b flags 2 align 8 size 100",
		".llvm.offloading type 6fff4c0b flags 2 align 8 size 40",
		".data.rel.ro type 1 flags 3 align 16 size 128",
		".text.startup type 1 flags 6 align 16 size 48",
		".init_array.101 type e flags 3 align 8 size 8",
		".eh_frame type 70000001 flags 2 align 8 size 72",
		".note.gnu.property type 7 flags 2 align 8 size 32",
		".note.GNU-stack type 1 flags 0 align 1 size 0",
	}
	if diff := cmp.Diff(want, sections(t, data)); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	wantSymbols := []string{
		"local __dummy.llvm_offload_entries llvm_offload_entries+0",
		"local .omp_offloading.device_image .llvm.offloading+0",
		"local .omp_offloading.device_image.1 .llvm.offloading+0",
		"local .omp_offloading.device_images .data.rel.ro+0",
		"local .omp_offloading.descriptor .data.rel.ro+96",
		"local .omp_offloading.descriptor_reg .text.startup+0",
		"local .omp_offloading.descriptor_unreg .text.startup+32",
		"global __start_llvm_offload_entries undefined+0",
		"global __stop_llvm_offload_entries undefined+0",
		"weak .offloading.entry.f undefined+0",
		"global __tgt_register_lib undefined+0",
		"global atexit undefined+0",
		"global __tgt_unregister_lib undefined+0",
	}
	if diff := cmp.Diff(wantSymbols, symbols(t, data)); diff != "" {
		t.Errorf("symbols (-want +got):\n%s", diff)
	}
}

func TestRelocatable(t *testing.T) {
	data := write(t, &Object{
		Machine:       elf.MachineAArch64,
		Registrations: []Registration{{Kind: offloadbinary.OpenMP, Images: []Image{image(9)}}},
		Relocatable:   true, Entries: "llvm_offload_entries_7f",
	})
	got := sections(t, data)
	if got[0] != "llvm_offload_entries_7f type 1 flags 3 align 8 size 0" || got[1] != ".llvm.offloading.relocatable type 1 flags 2 align 8 size 9" {
		t.Errorf("sections are %q", got[:2])
	}
	if names := strings.Join(symbols(t, data), "\n"); !strings.Contains(names, " __start_llvm_offload_entries_7f ") {
		t.Errorf("symbols are %s", names)
	}
}

// TestFatBinaries checks both kinds in one object, as a program of both has it.
func TestFatBinaries(t *testing.T) {
	for _, machine := range []uint16{elf.MachineX8664, elf.MachineAArch64} {
		data := write(t, &Object{
			Machine:       machine,
			Registrations: []Registration{{Kind: offloadbinary.HIP, Images: []Image{image(5000)}}, {Kind: offloadbinary.CUDA, Images: []Image{image(60)}}},
		})
		var got []string
		for _, s := range sections(t, data) {
			if !strings.HasPrefix(s, ".text") && !strings.HasPrefix(s, ".eh_frame") {
				got = append(got, s)
			}
		}
		want := []string{
			"llvm_offload_entries type 1 flags 200003 align 8 size 0",
			".hip_fatbin type 1 flags 2 align 4096 size 5000",
			".hipFatBinSegment type 1 flags 3 align 8 size 24",
			".bss type 8 flags 3 align 8 size 8",
			".init_array.101 type e flags 3 align 8 size 8",
			".nv_fatbin type 1 flags 2 align 16 size 60",
			".nvFatBinSegment type 1 flags 3 align 8 size 24",
			".bss type 8 flags 3 align 8 size 8",
			".init_array.101 type e flags 3 align 8 size 8",
			".note.gnu.property type 7 flags 2 align 8 size 32",
			".note.GNU-stack type 1 flags 0 align 1 size 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("machine %d: sections (-want +got):\n%s", machine, diff)
		}
	}
}

// streamed counts the bytes that pass through memory.
type streamed struct {
	written, appended int64
}

func (s *streamed) Write(p []byte) (int, error) { s.written += int64(len(p)); return len(p), nil }
func (s *streamed) Zeros(int64) error           { return nil }
func (s *streamed) Append(c content.Content) error {
	s.appended += c.Len()
	return nil
}

func TestImagesAreNotCopied(t *testing.T) {
	const size = 64 << 20
	o := Object{Machine: elf.MachineX8664, Registrations: []Registration{{Kind: offloadbinary.HIP, Images: []Image{{Content: content.Memory(make([]byte, size))}}}}}
	var sink streamed
	allocated := testing.AllocsPerRun(1, func() {
		if err := o.Write(&sink); err != nil {
			t.Fatal(err)
		}
	})
	if sink.written > 1<<16 || sink.appended < size {
		t.Errorf("%d bytes written, %d appended", sink.written, sink.appended)
	}
	if allocated > 1000 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestLargeImages(t *testing.T) {
	for _, test := range []struct {
		machine *machine
		size    int64
		want    uint64
	}{
		{&x86, 1, elf.ShfAlloc},
		{&x86, 1<<30 - 1, elf.ShfAlloc},
		{&x86, 1 << 30, elf.ShfAlloc | 0x10000000},
		{&aarch64, 1 << 40, elf.ShfAlloc}, // adrp reaches 4 GiB
	} {
		if got := test.machine.imageFlags(test.size); got != test.want {
			t.Errorf("%d bytes: flags 0x%x, want 0x%x", test.size, got, test.want)
		}
	}
}

func TestErrors(t *testing.T) {
	outside := image(10)
	outside.Devices = []Range{{8, 3}}
	tests := []struct {
		o    Object
		want string
	}{
		{Object{Machine: elf.MachineAArch64, COFF: true}, "machine 183 is not x86-64, as COFF requires"},
		{Object{COFF: true, Relocatable: true}, "relocatable registration requires ELF, found COFF"},
		{Object{Registrations: []Registration{{Kind: offloadbinary.SYCL, Images: []Image{image(1), image(2)}, Package: true}}}, "sycl: 2 images, expected one fat binary"},
		{Object{Machine: 3}, "machine 3 is not x86-64 or AArch64"},
		{Object{Entries: "a-b"}, `section "a-b" for offload entries: linkers define its start and end only if it is a C identifier`},
		{Object{Entries: "9"}, `section "9" for offload entries: linkers define its start and end only if it is a C identifier`},
		{Object{Registrations: []Registration{{Kind: offloadbinary.OpenMP, Images: nil}}}, "openmp: no image to register"},
		{Object{Registrations: []Registration{{Kind: offloadbinary.HIP, Images: []Image{image(1), image(1)}}}}, "hip: 2 images, expected one fat binary"},
		{Object{Registrations: []Registration{{Kind: offloadbinary.OpenMP, Images: []Image{image(1), {}}}}}, "openmp: image 2 of 2 is empty"},
		{Object{Registrations: []Registration{{Kind: offloadbinary.OpenMP, Images: []Image{outside}}}}, "openmp: image 1 of 1: device image at 0x8 + 0x3 passes its end at 0xa"},
	}
	for _, test := range tests {
		if test.o.Machine == 0 {
			test.o.Machine = elf.MachineX8664
		}
		err := test.o.Write(&content.Buffer{})
		if err == nil || err.Error() != test.want {
			t.Errorf("got error %v, want %s", err, test.want)
		}
	}
}

func TestParseKind(t *testing.T) {
	for _, name := range []string{"openmp", "hip", "cuda", "sycl"} {
		if k, err := ParseKind(name); err != nil || k.String() != name {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
	}
	for _, name := range []string{"", "none", "HIP"} {
		if _, err := ParseKind(name); err == nil {
			t.Errorf("%q is a kind", name)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	body := content.Memory(make([]byte, 1<<20))
	o := Object{Machine: elf.MachineX8664, Registrations: []Registration{{Kind: offloadbinary.HIP, Images: []Image{{Content: body}}}}}
	for b.Loop() {
		if err := o.Write(&streamed{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSYCL checks the descriptor of images, and an offload binary as a whole.
func TestSYCL(t *testing.T) {
	first, second := image(100), image(40)
	first.Triple, first.Symbols = "spirv64", []string{"a", "b"}
	second.Triple, second.Symbols, second.ImageKind = "spirv64-x", []string{"b"}, 6
	data := write(t, &Object{Machine: elf.MachineX8664, Registrations: []Registration{{Kind: offloadbinary.SYCL, Images: []Image{first, second}}}})
	want := []string{
		".rodata type 1 flags 2 align 1 size 19",
		".llvm.rodata.offloading type 1 flags 2 align 1 size 4",
		".llvm.offloading type 6fff4c0b flags 2 align 8 size 100",
		".llvm.offloading type 6fff4c0b flags 2 align 8 size 40",
		".data.rel.ro type 1 flags 3 align 16 size 360",
		"llvm_offload_entries type 1 flags 200003 align 8 size 112",
		".text.startup type 1 flags 6 align 16 size 32",
		".init_array.1 type e flags 3 align 8 size 8",
		".fini_array.1 type f flags 3 align 8 size 8",
		".eh_frame type 70000001 flags 2 align 8 size 72",
		".note.gnu.property type 7 flags 2 align 8 size 32",
		".note.GNU-stack type 1 flags 0 align 1 size 0",
	}
	if diff := cmp.Diff(want, sections(t, data)); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	f, err := object.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	constants, err := f.Data(5)
	if err != nil {
		t.Fatal(err)
	}
	// Three entries, two images of version 3 and kind 8, and the descriptor.
	for at, want := range map[int]string{8: "\x01\x00\x08\x00", 168: "\x03\x00\x08\x00", 248: "\x03\x00\x08\x06", 328: "\x01\x00\x02\x00"} {
		if got := string(constants[at : at+4]); got != want {
			t.Errorf("byte %d: %q, want %q", at, got, want)
		}
	}
	names := strings.Join(symbols(t, data), "\n")
	for _, want := range []string{"weak .offloading.entry.a llvm_offload_entries+0", "weak .offloading.entry.b llvm_offload_entries+56", "local sycl.descriptor_unreg .text.startup+16", "local .sycl_offloading.descriptor .data.rel.ro+328"} {
		if !strings.Contains(names, want) {
			t.Errorf("no %q in\n%s", want, names)
		}
	}

	data = write(t, &Object{Machine: elf.MachineAArch64, Registrations: []Registration{{Kind: offloadbinary.SYCL, Images: []Image{first}, Package: true}}})
	if got := sections(t, data)[:2]; got[0] != ".llvm.offloading type 6fff4c0b flags 2 align 8 size 100" || got[1] != ".data.rel.ro type 1 flags 3 align 16 size 16" {
		t.Errorf("sections are %q", got)
	}
}

// TestCOFF checks objects for Windows. Tests that have LLVM's linker link them.
func TestCOFF(t *testing.T) {
	data := write(t, &Object{Machine: elf.MachineX8664, COFF: true, Registrations: []Registration{{Kind: offloadbinary.HIP, Images: []Image{image(5000)}}, {Kind: offloadbinary.OpenMP, Images: []Image{image(9)}}}})
	f, err := object.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range f.Sections {
		got = append(got, fmt.Sprintf("%s %d", s.Name, s.Size))
	}
	want := []string{
		"llvm_offload_entries$A 8", "llvm_offload_entries$OA 0", "llvm_offload_entries$OZ 0",
		".hip_fatbin 5000", ".hipFatBinSegment 24", ".bss 8", ".text.startup 392", ".CRT$XCA00101 8", ".xdata 28", ".pdata 36",
		".llvm.offloading 9", ".rdata 64", ".text.startup 70", ".CRT$XCA00101 8", ".xdata 16", ".pdata 24",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	names := strings.Join(symbols(t, data), "\n")
	for _, want := range []string{
		"global .weak.__start_llvm_offload_entries.default llvm_offload_entries$OA+0", "weak __stop_llvm_offload_entries undefined+0",
		"local .hip.fatbin_reg .text.startup+0", "global __tgt_register_lib undefined+0", "local .omp_offloading.descriptor .rdata+32",
	} {
		if !strings.Contains(names, want) {
			t.Errorf("no %q in\n%s", want, names)
		}
	}
}
