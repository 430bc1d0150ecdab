package linkerwrapper

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// TestMissingKernels warns about kernels of an object without code for a GPU, whose code for the family another object
// hides. The output does not depend on the warning.
func TestMissingKernels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	compile := func(output, source string, archs ...string) {
		args := []string{"-x", "hip", "-nogpulib", "-nogpuinc", "-fgpu-rdc", "--offload-new-driver", "-fPIC", "-O1", "-c", source, "-o", output}
		for _, arch := range archs {
			args = append(args, "--offload-arch="+arch)
		}
		b.clang(args...)
	}
	const header = "#define __global__ __attribute__((global))\nstruct dim3 { unsigned x, y, z; };\n" +
		"extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);\n" +
		"extern \"C\" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);\n"
	b.write("one.hip", header+"__global__ void one(float *p) { *p = 1; }\n")
	b.write("two.hip", header+"__global__ void two(float *p) { *p = 2; }\n")
	compile("one.o", "one.hip", "gfx11-generic")
	compile("two.o", "two.hip", "gfx11-generic", "gfx1100")
	compile("full.o", "one.hip", "gfx11-generic", "gfx1100")
	b.run("/bin/sh", "-c", "ar rcs libone.a one.o")
	const want = ": on gfx1100: the image hip-amdgcn-amd-amdhsa--gfx1100 that it selects does not have the registered kernels _Z3onePf, " +
		"which are in hip-amdgcn-amd-amdhsa--gfx11-generic; no code for it is in "
	for _, test := range []struct{ inputs, object string }{
		{"one.o two.o", "one.o"}, {"two.o -Wl,--whole-archive libone.a -Wl,--no-whole-archive", "libone.a(one.o)"}, {"full.o two.o", ""}, {"two.o", ""},
	} {
		link := func(output string, args ...string) result {
			args = append(args, b.by(true), "--offload-link", "-shared", "-nostdlib", "-o", output)
			return b.call(llvm.Tool(b, "clang++"), append(args, strings.Fields(test.inputs)...)...)
		}
		loud, quiet := link("loud.so"), link("quiet.so", "-Wl,--no-warn-missing-kernels")
		message := ""
		if test.object != "" {
			message = "clang-linker-wrapper: warning: loud.so" + want + test.object + "\n"
		}
		if loud.Code != 0 || !strings.HasSuffix(loud.Stderr, message) || message == "" && loud.Stderr != "" {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s", test.inputs, loud.Code, loud.Stderr, message)
		}
		if quiet.Code != 0 || quiet.Stderr != "" || !bytes.Equal(b.read("loud.so"), b.read("quiet.so")) {
			t.Errorf("%s: exit code %d, %s, or other bytes without the warning", test.inputs, quiet.Code, quiet.Stderr)
		}
	}
	b.tidy()
}
