// Package launch compares offload launch with the compiler itself: outputs, messages and exit codes, from a miss and from a
// hit.
//
//	tools/offline/run go test ./tests/launch
//
// With -all, it compiles every source in all modes.
package launch

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

var all = flag.Bool("all", false, "compile every source in all modes")

func TestMain(m *testing.M) { llvm.Main(m, "/usr/bin/buildbox-casd", "/usr/bin/strace") }

// hip.h declares as much of HIP as programs need to compile without a ROCm installation.
const hipHeader = `#pragma once
#include <stddef.h>
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; __host__ __device__ dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
typedef int hipError_t;
typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, size_t *, hipStream_t *);
`

const scaleSource = `#include "hip.h"
#include "scale.h"
static __device__ int calls;
__global__ void scale(float *p, float by) { *p = factor(by); calls++; }
void run(float *p) { scale<<<1, 1>>>(p, 2); }
`

const scaleHeader = "#pragma once\n__device__ inline float factor(float by) { return by * 3; }\n"

// old is before every file that a test writes before a compilation: a file that is newer than a
// compilation is not trusted.
var old = time.Now().Add(-time.Hour)

// bench is a directory with sources and a cache.
type bench struct {
	t   *testing.T
	dir string
	env []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: filepath.Join(dir, "work"), env: []string{"PATH=" + llvm.Dir + ":/usr/bin:/bin", "HOME=" + dir, "OFFLOAD_CACHE=" + filepath.Join(dir, "cache")}}
	b.write("hip.h", hipHeader)
	b.write("scale.h", scaleHeader)
	b.write("scale.hip", scaleSource)
	return b
}

func (b *bench) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

// write writes a source, and waits until its time is before that of a compilation.
func (b *bench) write(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o777); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o666); err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
}

func (b *bench) read(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// result is what a command printed and returned.
type result struct {
	stdout, stderr string
	code           int
}

func (b *bench) command(env []string, args ...string) result {
	b.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = b.dir, append(append([]string{}, b.env...), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%q: %v", args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// clang runs the compiler of LLVM 22.
func (b *bench) clang(args ...string) result {
	b.t.Helper()
	return b.command(nil, append([]string{llvm.Dir + "/clang++"}, args...)...)
}

// launch runs the compiler through offload launch.
func (b *bench) launch(args ...string) result {
	b.t.Helper()
	return b.command(nil, append([]string{llvm.Offload(b.t), "launch", llvm.Dir + "/clang++"}, args...)...)
}

// states runs the compiler through offload launch, and returns the state of each step, such as "gfx90a hit".
func (b *bench) states(args ...string) string {
	b.t.Helper()
	return b.statesWith(nil, args...)
}

func (b *bench) statesWith(env []string, args ...string) string {
	b.t.Helper()
	r := b.command(env, append([]string{llvm.Offload(b.t), "launch", "--show-key", "--explain", llvm.Dir + "/clang++"}, args...)...)
	if r.code != 0 {
		b.t.Fatalf("%q: exit code %d\n%s", args, r.code, r.stderr)
	}
	var states []string
	for line := range strings.Lines(r.stdout) {
		words := strings.Split(strings.TrimSpace(line), "\t")
		if len(words) != 3 {
			b.t.Fatalf("--show-key printed %q", line)
		}
		states = append(states, words[2]+" "+words[1])
	}
	if states == nil {
		return "passed"
	}
	return strings.Join(states, ", ")
}

// expect fails unless the states of a compilation are those that are wanted.
func (b *bench) expect(want string, args ...string) {
	b.t.Helper()
	if got := b.states(args...); got != want {
		b.t.Errorf("%q: got %s, want %s", args, got, want)
	}
}

// device are the flags for device code without a ROCm installation.
var device = []string{"-x", "hip", "-nogpuinc", "-nogpulib", "-cuid=1"}

// with returns arguments to compile for GPUs.
func with(archs string, args ...string) []string {
	flags := append([]string{}, device...)
	for arch := range strings.SplitSeq(archs, " ") {
		flags = append(flags, "--offload-arch="+arch)
	}
	return append(flags, args...)
}

// TestEqualToCompiler compiles sources with clang, and twice through offload launch: the outputs,
// dependency files and messages are the same.
func TestEqualToCompiler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("warn.hip", "#include \"hip.h\"\n__global__ void k(float *p) { int unused; *p = 1; }\nstatic void never() {}\n")
	b.write("plain.cc", "#include \"hip.h\"\n#undef __host__\n#include <vector>\nint f() { std::vector<int> v{1}; return v[0]; }\n")
	b.write("plain.c", "#include <stdio.h>\nint main(void) { puts(\"a\"); return 0; }\n")
	b.write("omp.c", "int f(int *p) {\n#pragma omp target map(p[:4])\n  p[0] = 1;\n  return p[0]; }\n")
	compilations := map[string][]string{
		"one GPU":          with("gfx90a", "-O2", "scale.hip"),
		"two GPUs":         with("gfx90a gfx942", "-O3", "-g", "scale.hip"),
		"features":         with("gfx90a:xnack+ gfx90a:xnack-", "-O0", "scale.hip"),
		"dependencies":     with("gfx90a", "-MD", "-MF", "out.d", "scale.hip"),
		"user's headers":   with("gfx90a", "-MMD", "-MP", "-MF", "out.d", "-MT", "a very long name of a target, so that the line breaks.o", "scale.hip"),
		"rdc":              with("gfx90a gfx942", "-O2", "-fgpu-rdc", "scale.hip"),
		"new driver":       with("gfx90a gfx942", "-O2", "--offload-new-driver", "scale.hip"),
		"new driver, rdc":  with("gfx90a", "-O2", "--offload-new-driver", "-fgpu-rdc", "scale.hip"),
		"warnings":         with("gfx90a gfx942", "-Wall", "-fcolor-diagnostics", "warn.hip"),
		"unused argument":  with("gfx90a", "-lfoo", "scale.hip"),
		"compressed":       with("gfx90a gfx942", "--offload-compress", "scale.hip"),
		"bitcode":          with("gfx90a", "-emit-llvm", "--cuda-host-only", "scale.hip"),
		"device only":      with("gfx90a", "--cuda-device-only", "scale.hip"),
		"C++":              {"-O2", "-std=c++20", "-MD", "-MF", "out.d", "plain.cc"},
		"C":                {"-x", "c", "-O2", "-g", "plain.c"},
		"absolute":         with("gfx90a", "-MD", "-MF", "out.d", "-I"+b.dir, b.path("scale.hip")),
		"an output's name": with("gfx90a", "-MD", "scale.hip"),
		"OpenMP":           {"-x", "c", "-fopenmp", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc", "omp.c"},
	}
	if *all {
		sources, err := filepath.Glob("../../kernels/*.hip")
		if err != nil || len(sources) == 0 {
			t.Fatal(sources, err)
		}
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			source, err := filepath.Abs(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, archs := range []string{"gfx90a", "gfx906 gfx90a:xnack+ gfx90a:xnack- gfx942 gfx1030 gfx1100 gfx1201 gfx1250"} {
				for _, mode := range []string{"-O0", "-O3", "-g", "-fgpu-rdc", "--offload-new-driver"} {
					compilations[filepath.Base(source)+" "+archs+" "+mode] = with(archs, mode, "-MD", "-MF", "out.d", "-I", root, source)
				}
			}
		}
	}
	for name, args := range compilations {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t, dir: b.dir, env: b.env}
			args := append([]string{"-c", "-o", "out.o"}, args...)
			outputs := func(r result) map[string]string {
				t.Helper()
				if r.code != 0 {
					t.Fatalf("exit code %d\n%s", r.code, r.stderr)
				}
				got := map[string]string{"messages": r.stderr + r.stdout}
				for _, output := range []string{"out.o", "out.d"} {
					if data, err := os.ReadFile(b.path(output)); err == nil {
						got[output] = string(data)
						os.Remove(b.path(output))
					}
				}
				return got
			}
			os.Remove(b.path("out.d")) // of another compilation
			want := outputs(b.clang(args...))
			for _, run := range []string{"miss", "hit"} {
				got := outputs(b.launch(args...))
				for output := range want {
					if got[output] != want[output] {
						t.Errorf("%s: %s differs from the compiler's: %d and %d bytes\n%.500q\n%.500q", run, output, len(got[output]), len(want[output]), got[output], want[output])
					}
				}
			}
			states := b.states(args...)
			if strings.Contains(states, "miss") || states == "passed" && name != "device only" {
				t.Errorf("the third compilation: %s", states)
			}
		})
	}
}
