package flows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCalls compares the calls of registration objects, argument by argument, with those of the
// objects that LLVM's wrapper and compiler make.
func TestCalls(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.write("image", []byte(strings.Repeat("a device image, or what stands for one\n", 10)))
	f.tool("llvm-offload-binary", "-o", "image.package", "--image=file=image,triple="+host+",arch=,kind=openmp")
	for _, code := range []string{"-fPIC", "-fno-pic"} {
		for _, source := range []string{"trace", "entries", "order"} {
			f.gcc(code, "-O1", "-c", source+".c", "-o", source+code+".o")
		}
	}
	for _, kind := range []string{"openmp", "hip", "cuda"} {
		image := "image"
		if kind == "openmp" {
			image = "image.package"
		}
		f.offload("register", "--kind="+kind, "--triple="+host, "--output="+kind+".o", image)
		f.tool("llvm-offload-wrapper", "-kind="+kind, "--triple="+host, image, "-o", kind+".bc")
		f.clang("-O2", "-fPIC", "-c", "-x", "ir", kind+".bc", "-o", kind+"-llvm.o")
		for _, ld := range []string{"bfd", "lld"} {
			for _, mode := range []string{"-pie", "-no-pie", "-static", "-static-pie", "-Wl,--gc-sections,-z,nostart-stop-gc", "-Wl,-z,now,-z,text"} {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, ld, mode), func(t *testing.T) {
					code := "-fPIC"
					if mode == "-no-pie" {
						code = "-fno-pic"
					}
					var printed [2]string
					for i, object := range []string{kind + "-llvm.o", kind + ".o"} {
						args := []string{mode, "order" + code + ".o", "trace" + code + ".o", "entries" + code + ".o", object, "-o", "program"}
						f.gcc(append(linker(ld), args...)...)
						printed[i] = f.run(f.path("program"))
					}
					if diff := cmp.Diff(printed[0], printed[1]); diff != "" {
						t.Errorf("calls (-LLVM +this):\n%s", diff)
					}
					if n := strings.Count(printed[1], "\n"); n < 10 || !strings.Contains(printed[1], "unregister") {
						t.Errorf("%d lines:\n%s", n, printed[1])
					}
				})
			}
			t.Run(fmt.Sprintf("%s/%s/-shared", kind, ld), func(t *testing.T) {
				var printed [2]string
				for i, object := range []string{kind + "-llvm.o", kind + ".o"} {
					f.gcc(append(linker(ld), "-shared", "-Wl,-z,defs,-z,text", "trace-fPIC.o", "entries-fPIC.o", object, "-o", "libtrace.so")...)
					f.gcc("order-fPIC.o", "-Wl,--no-as-needed", "./libtrace.so", "-o", "program")
					printed[i] = f.run(f.path("program"))
				}
				if diff := cmp.Diff(printed[0], printed[1]); diff != "" {
					t.Errorf("calls (-LLVM +this):\n%s", diff)
				}
			})
		}
	}
}

// TestGarbageCollection links with lld, which removes offload entries to which nothing refers.
func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.write("image", []byte(strings.Repeat("a device image, or what stands for one\n", 10)))
	for _, source := range []string{"trace", "entries", "order"} {
		f.clang("-O1", "-fdata-sections", "-c", source+".c", "-o", source+".o")
	}
	f.offload("register", "--kind=hip", "--triple="+host, "--output=kept.o", "--keep-entries=entries.o", "image")
	f.offload("register", "--kind=hip", "--triple="+host, "--output=plain.o", "image")
	f.gcc("order.o", "trace.o", "entries.o", "plain.o", "-o", "everything")
	want := f.run(f.path("everything"))
	for _, ld := range []string{"bfd", "lld"} {
		f.gcc(append(linker(ld), "-Wl,--gc-sections", "order.o", "trace.o", "entries.o", "kept.o", "-o", "kept")...)
		if diff := cmp.Diff(want, f.run(f.path("kept"))); diff != "" {
			t.Errorf("%s (-all +kept):\n%s", ld, diff)
		}
	}
	// The section may be empty, but must exist: the program links and starts.
	f.gcc(append(linker("lld"), "-Wl,--gc-sections", "order.o", "trace.o", "entries.o", "plain.o", "-o", "plain")...)
	f.run(f.path("plain"))
	f.gcc(append(linker("lld"), "-Wl,--gc-sections", "order.o", "trace.o", "plain.o", "-o", "none")...)
	f.run(f.path("none"))
}

// TestProtection checks with lld that the objects support CET, BTI, PAC and GCS, and that AArch64
// objects link.
func TestProtection(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.write("image", []byte(strings.Repeat("image", 100)))
	for _, kind := range []string{"openmp", "hip", "cuda"} {
		f.offload("register", "--kind="+kind, "--triple="+host, "--output=x86.o", "image")
		f.tool("ld.lld", "-shared", "-z", "text", "-z", "cet-report=error", "x86.o", "-o", "x86.so")

		f.offload("register", "--kind="+kind, "--triple=aarch64-unknown-linux-gnu", "--output=arm.o", "image")
		f.tool("ld.lld", "-shared", "-z", "text", "-z", "bti-report=error", "-z", "gcs-report=error", "-z", "pac-plt", "arm.o", "-o", "arm.so")
		code := f.tool("llvm-objdump", "-d", "--no-show-raw-insn", "arm.so")
		for _, want := range map[string][]string{
			"openmp": {"<__tgt_register_lib@plt>", "<atexit@plt>", "<__tgt_unregister_lib@plt>"},
			"hip":    {"<__hipRegisterFatBinary@plt>", "<.hip.globals_reg>", "<__hipRegisterTexture@plt>", "<atexit@plt>", "<__hipUnregisterFatBinary@plt>"},
			"cuda":   {"<__cudaRegisterFatBinary@plt>", "<.cuda.globals_reg>", "<__cudaRegisterFatBinaryEnd@plt>", "<atexit@plt>", "<__cudaUnregisterFatBinary@plt>"},
		}[kind] {
			if !strings.Contains(code, want) {
				t.Errorf("%s: no call of %s in\n%s", kind, want, code)
			}
		}
		if notes := f.tool("llvm-readelf", "-n", "arm.so"); !strings.Contains(notes, "BTI, PAC, GCS") {
			t.Errorf("%s: notes are\n%s", kind, notes)
		}
	}
}
