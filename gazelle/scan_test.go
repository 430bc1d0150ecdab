package offload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScanIncludes(t *testing.T) {
	source := `#include <hip/hip_runtime.h>
# include "a.h" // "no.h"
/* #include "no.h"
 #include "no.h" */ #include "b.h"
// #include "no.h" \
#include "no.h"
#inc\
lude "c.h"
const char *s = "\
#include \"no.h\"";
const char *raw = R"x(
#include "no.h"
)" )x";
int million = 1'000'000; char q = '"';
#include_next "./sub/../d.h"
#if 0
#import "no.h"
#endif
#include "e.h"`
	want := []include{
		{path: "hip/hip_runtime.h", angle: true, line: 1},
		{path: "a.h", line: 2},
		{path: "b.h", line: 3},
		{path: "c.h", line: 7},
		{path: "d.h", line: 15},
		{path: "e.h", line: 19},
	}
	for name, text := range map[string]string{"lf": source, "crlf": strings.ReplaceAll(source, "\n", "\r\n")} {
		if diff := cmp.Diff(want, scanSource([]byte(text)).includes, cmp.AllowUnexported(include{})); diff != "" {
			t.Errorf("%s: includes (-want +got):\n%s", name, diff)
		}
	}
}

func TestScanDeviceCode(t *testing.T) {
	tests := []struct {
		source                       string
		kernel, launch, target, main bool
	}{
		{source: ""},
		{source: "__global__ void k() {}", kernel: true},
		{source: "#define KERNEL __global__ void", kernel: true},
		{source: `auto s = "__global__ void k() {}"; // __global__`},
		{source: "auto s = R\"(\n__global__ void k() {}\n)\";"},
		{source: "void not__global__();"},
		{source: "#pragma omp target", target: true},
		{source: "  #  pragma omp target map(to: a) nowait", target: true},
		{source: "#pragma omp \\\n   target teams", target: true},
		{source: "#pragma omp /* here */ target", target: true},
		{source: "#pragma omp declare target", target: true},
		{source: "#pragma omp begin declare target", target: true},
		{source: "#pragma omp begin declare_target", target: true},
		{source: "#pragma omp target_data map(a)", target: true},
		{source: "#pragma omp metadirective when(device={kind(gpu)}: target) otherwise(parallel)", target: true},
		{source: "#pragma omp metadirective when(user={condition(x)}: parallel)"},
		{source: `#define OFFLOAD _Pragma("omp target")`, target: true},
		{source: `void f() { _Pragma ( "omp target update to(x)" ) }`, target: true},
		{source: `void f() { pragma("omp target"); }`},
		{source: "#pragma omp parallel for"},
		{source: "#pragma omp declare simd"},
		{source: "#pragma omp"},
		{source: "#pragma once"},
		{source: "#pragma acc target"},
		{source: "// #pragma omp target"},
		{source: "/*\n#pragma omp target\n*/"},
		{source: "/* #pragma omp target"},
		{source: "k<<<1, 64>>>(x);", launch: true},
		{source: "hipLaunchKernelGGL(k, 1, 64, 0, 0, x);", launch: true},
		{source: "// k<<<1, 64>>>(x);"},
		{source: "std::cout << x << y; hipModuleLaunchKernel(f);"},
		{source: "int main() {}", main: true},
		{source: "int\nmain (int argc, char **argv)", main: true},
		{source: "auto main() -> int {}", main: true},
		{source: "int domain(); int main_loop();"},
	}
	for _, test := range tests {
		s := scanSource([]byte(test.source))
		if s.kernel != test.kernel || s.launch != test.launch || s.target != test.target || s.main != test.main {
			t.Errorf("%q: kernel %v, launch %v, target %v, main %v; want %v, %v, %v, %v", test.source, s.kernel, s.launch, s.target, s.main, test.kernel, test.launch, test.target, test.main)
		}
	}
}

func TestScanDeviceFunctions(t *testing.T) {
	tests := []struct {
		source           string
		device, portable bool
	}{
		{source: "__device__ int square(int x) { return x * x; }", device: true},
		{source: "__host__\n__device__ int square(int x);", device: true},
		{source: "static __device__ float table[4];", device: true},
		{source: `auto s = "__device__"; // __device__`},
		{source: "int my__device__ = 0;"},
		{source: "#define DEVICE __device__"},
		{source: "#define __device__ __attribute__((device))\n__device__ int x;", device: true},
		{source: "#define __device__\n__device__ int x;", device: true, portable: true},
		{source: "#ifdef __HIPCC__\n__device__ int x;\n#endif", device: true, portable: true},
		{source: "#if defined(__CUDACC__) || defined(__HIPCC__)\n#endif", portable: true},
		{source: "#if 0\n#elif __HIP__\n#endif", portable: true},
		{source: "#  ifndef __device__\n#endif", portable: true},
		{source: "__device__ int f() {\n#if __HIP_DEVICE_COMPILE__\n#endif\n}", device: true},
		{source: "// #ifdef __HIPCC__"},
	}
	for _, test := range tests {
		s := scanSource([]byte(test.source))
		if s.device != test.device || s.portable != test.portable {
			t.Errorf("%q: device %v, portable %v; want %v, %v", test.source, s.device, s.portable, test.device, test.portable)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("#include \"a.h\"\n_Pragma(\"omp target\") /* */ R\"x()x\" '\\''\\\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		number := 0
		lines(data, func(l line) {
			if l.number <= number {
				t.Errorf("line %d after line %d", l.number, number)
			}
			number = l.number
		})
		scanSource(data)
	})
}
