package registerir

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/registration/register"
)

func print(t *testing.T, m Module) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWrite checks the parts that differ between modules. Other tests compare whole modules with
// those of llvm-offload-wrapper.
func TestWrite(t *testing.T) {
	image := register.Image{Content: content.Memory([]byte("a\"b\\c\x00\xffz"))}
	part := image
	part.Devices = []register.Range{{Offset: 0, Size: 3}, {Offset: 2, Size: 4}}
	sycl := register.Image{Content: content.Memory([]byte("x")), Triple: "spirv64", Symbols: []string{"k\n", "l"}, ImageKind: 6}
	for _, test := range []struct {
		name string
		m    Module
		want []string
	}{
		{"OpenMP", Module{Triple: "x86_64-pc-linux-gnu", Registration: register.Registration{Kind: offloadbinary.OpenMP, Images: []register.Image{image, part}}}, []string{
			`@.omp_offloading.device_image = internal unnamed_addr constant [8 x i8] c"a\22b\\c\00\FFz", section ".llvm.offloading", align 8` + "\n",
			`ptr @.omp_offloading.device_image.1, ptr getelementptr ([8 x i8], ptr @.omp_offloading.device_image.1, i64 0, i64 3)`,
			`ptr getelementptr ([8 x i8], ptr @.omp_offloading.device_image.1, i64 0, i64 2), ptr getelementptr ([8 x i8], ptr @.omp_offloading.device_image.1, i64 0, i64 6)`,
			`%__tgt_bin_desc { i32 3, ptr @.omp_offloading.device_images, `,
			"@__dummy.llvm_offload_entries = ",
		}},
		{"relocatable", Module{Triple: "aarch64-linux", Relocatable: true, Registration: register.Registration{Kind: offloadbinary.OpenMP, Images: []register.Image{{}}}}, []string{
			`constant [0 x i8] zeroinitializer, section ".llvm.offloading.relocatable", align 8`,
		}},
		{"HIP", Module{Triple: "x86_64-linux", PageAligned: true, Registration: register.Registration{Kind: offloadbinary.HIP, Images: []register.Image{image}}}, []string{
			`section ".hip_fatbin", align 4096`, "icmp eq i16 %kind, 4", "call void @__hipRegisterSurface(", "i32 1212764230,",
		}},
		{"CUDA for Windows", Module{Triple: "x86_64-pc-windows-msvc", Registration: register.Registration{Kind: offloadbinary.CUDA, Images: []register.Image{image}}}, []string{
			`section ".nv_fatbin"` + "\n", "icmp eq i16 %kind, 2", "call void @__cudaRegisterFatBinaryEnd(ptr %0)\n  %1 = call i32 @atexit",
			`@__start_llvm_offload_entries = weak_odr hidden constant [0 x %struct.__tgt_offload_entry] zeroinitializer, section "llvm_offload_entries$OA"`,
		}},
		{"Mach-O", Module{Triple: "arm64-apple-macos", Registration: register.Registration{Kind: offloadbinary.HIP, Images: []register.Image{image}}}, []string{
			`@"\01section$start$__LLVM$offload_entries" = external hidden`, `section "__HIP,__hip_fatbin"`, `section "__TEXT,__StaticInit" {`,
		}},
		{"SYCL", Module{Triple: "x86_64-linux", Registration: register.Registration{Kind: offloadbinary.SYCL, Images: []register.Image{sycl, sycl}}}, []string{
			`@".offloading.entry.k\0A" = weak constant `, "i16 3, i8 8, i8 6, ptr @.sycl_offloading.target.1", "{ i16 1, i16 2, ptr @.sycl_offloading.device_images",
			"@.sycl_offloading.entries_arr.2 = internal constant [2 x ", "!1 = !{ptr @.offloading.entry_name.1}\n",
		}},
		{"SYCL package", Module{Triple: "x86_64-linux", Registration: register.Registration{Kind: offloadbinary.SYCL, Package: true, Images: []register.Image{image}}}, []string{
			"call void @__sycl_unregister_lib(ptr @.sycl_offloading.binary, i64 8)", "{ i32 1, ptr @sycl.descriptor_unreg, ptr null }",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := print(t, test.m)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
		})
	}
	for _, m := range []Module{
		{Registration: register.Registration{Kind: offloadbinary.HIP}},
		{Registration: register.Registration{Kind: offloadbinary.SYCL, Package: true, Images: []register.Image{image, image}}},
		{Triple: "a\"b", Registration: register.Registration{Kind: offloadbinary.HIP, Images: []register.Image{image}}},
	} {
		if err := m.WriteText(&bytes.Buffer{}); err == nil {
			t.Errorf("%+v is written", m)
		}
	}
}
