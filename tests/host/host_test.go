// Package host builds host code of HIP and OpenMP sources with the features of C++ toolchains: sanitizers, coverage and
// checks of headers. tests/cctoolchains has other toolchains.
package host

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/programs"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "buildbox-casd")
}

const buildFile = `load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_shared_library")
load("@rules_offload//rules:defs.bzl", "hip_binary", "hip_device_link", "hip_library", "offload_cc_data", "openmp_library")

hip_library(
    name = "fill",
    srcs = [
        "fill.hip",
        "private.h",
    ],
    hdrs = ["fill.h"],
    compress = "none",
    implementation_deps = [":hip"],
    include_prefix = "gpu",
    offload_archs = ["gfx90a"],
)

cc_library(
    name = "hip",
    hdrs = ["hip.h"],
)

# With headers, as the runtime of a ROCm.
cc_library(
    name = "runtime",
    srcs = ["hiprt.c"],
    hdrs = ["api.h"],
    defines = ["API=1"],
    include_prefix = "runtime",
)

# Host code in several threads.
hip_binary(
    name = "threads",
    srcs = ["threads.hip"],
    compress = "none",
    copts = ["-fopenmp"],
    offload_archs = ["gfx90a"],
    deps = [
        ":hip",
        ":only_c",
    ],
)

# No device code.
hip_library(
    name = "only_c",
    srcs = ["only_c.c"],
    offload_archs = ["gfx90a"],
    rdc = True,
)

cc_binary(
    name = "app",
    srcs = ["main.cc"],
    deps = [":fill"],
)

# Device code in a shared library.
cc_shared_library(
    name = "shared",
    deps = [":fill"],
)

cc_binary(
    name = "app_of_shared",
    srcs = ["main.cc"],
    dynamic_deps = [":shared"],
    deps = [":fill"],
)

# Device code as data, also of a shared library.
offload_cc_data(
    name = "fill_data",
    src = ":fill",
    symbol = "fill_kernels",
)

cc_binary(
    name = "dump",
    srcs = ["dump.c"],
    deps = [":fill_data"],
)

cc_shared_library(
    name = "shared_data",
    deps = [":fill_data"],
)

cc_binary(
    name = "dump_of_shared",
    srcs = ["dump.c"],
    dynamic_deps = [":shared_data"],
    deps = [":fill_data"],
)

# A tool of the build.
genrule(
    name = "generated",
    outs = ["generated.txt"],
    cmd = "$(location :app) > $@",
    tools = [":app"],
)

openmp_library(
    name = "sum",
    srcs = ["sum.c"],
    additional_compiler_inputs = ["start.h"],
    copts = ["-include $(location start.h)"],
)

# A header that uses undeclared names.
hip_library(
    name = "incomplete",
    srcs = ["fill.hip"],
    hdrs = ["incomplete.h"],
    compress = "none",
    offload_archs = ["gfx90a"],
    deps = [":fill", ":hip"],
)

# Libraries of which a program needs a part.
[
    [
        hip_library(
            name = name + suffix,
            srcs = ["used.hip", "unused.hip"],
            alwayslink = bool(suffix),
            compress = "none",
            device_link = not deps,
            offload_archs = ["gfx90a"],
            rdc = rdc,
            deps = [":hip"],
        ),
        cc_binary(
            name = name + suffix + "_app",
            srcs = ["part.cc"],
            deps = [":" + name + suffix] + deps,
        ),
    ]
    for suffix in ["", "_always"]
    for name, rdc, deps in [
        ("parts", False, []),
        ("parts_rdc", True, []),
        ("parts_unlinked", True, [":parts_unlinked" + suffix + "_code"]),
    ]
]

[
    hip_device_link(
        name = "parts_unlinked" + suffix + "_code",
        compress = "none",
        deps = [":parts_unlinked" + suffix],
    )
    for suffix in ["", "_always"]
]

cc_binary(
    name = "parts_without_code",
    srcs = ["part.cc"],
    tags = ["manual"],
    deps = [":parts_unlinked"],
)

# Includes what it depends on, and what it does not.
cc_library(
    name = "direct",
    srcs = ["direct.cc"],
    deps = [":fill"],
)

cc_library(
    name = "indirect",
    srcs = ["direct.cc"],
    deps = [":direct"],
)
`

// sources are the sources of a program: a kernel, and a host function that, on request, writes
// beyond its memory.
var sources = map[string]string{
	"BUILD.bazel":  buildFile,
	"api.h":        "enum { api = API };\n",
	"direct.cc":    "#include \"gpu/fill.h\"\n",
	"dump.c":       "#include \"fill_data.h\"\n\n#include <stdio.h>\n\nint main(void) { return fwrite(fill_kernels, 1, fill_kernels_size, stdout) != fill_kernels_size; }\n",
	"fill.h":       "#pragma once\n#include <stddef.h>\n#ifndef __HIP__\n#include <runtime/api.h>\n#endif\nint fill(int at, size_t size);\n",
	"incomplete.h": "__global__ void fills(missing *p);\n",
	"private.h":    "#pragma once\nenum { block = 64 };\n",
	"fill.hip": `#include "gpu/fill.h"

#include <memory>

#include "hip.h"
#include "private.h"

#if __cplusplus < 201703L
#error the standard is that of the C++ toolchain
#endif

__global__ void ones(int *p) { p[__builtin_amdgcn_workitem_id_x()] = 1; }

int fill(int at, size_t size) {
  auto ints = std::make_unique<int[]>(size);
  ones<<<dim3(2), dim3(block)>>>(ints.get());
  ints[at] = 1;
  return ints[0];
}
`,
	"main.cc": `#include <cstdio>
#include <cstdlib>

#include "gpu/fill.h"

int main(int argc, char **) {
  std::puts("x86-64");
  std::fflush(stdout);
  return fill(argc == 1 ? 0 : 4, 4) != 0 && argc > 1;
}
`,
	"threads.hip": `#include <cstdio>

#include "hip.h"

__global__ void one(int *p) { *p = 1; }

extern "C" int only_c(void);

int main() {
  int threads = 0, one = 0;
#pragma omp parallel reduction(+ : threads)
  threads++;
#pragma omp parallel for reduction(+ : one) num_threads(2)
  for (int i = 0; i < 1000; i++) one += i * only_c();
  std::printf("%d threads, sum %d\n", threads, one);
}
`,
	"part.cc":    "void used();\n\nint main() { used(); }\n",
	"used.hip":   "#include \"hip.h\"\n\n__global__ void one(int *p) { *p = 1; }\n\nvoid used() { one<<<dim3(1), dim3(1)>>>(nullptr); }\n",
	"unused.hip": "#include \"hip.h\"\n\n__global__ void two(int *p) { *p = 2; }\n\nvoid unused() { two<<<dim3(1), dim3(1)>>>(nullptr); }\n",
	"start.h":    "enum { start = 0 };\n", // included twice, it fails
	"only_c.c":   "int only_c(void) { return 1; }\n",
	"sum.c": `int sum(int n) {
  int all = start;
#pragma omp target teams distribute parallel for map(tofrom : all) reduction(+ : all)
  for (int i = 0; i < n; i++) all += i;
  return all;
}
`,
}

const output = `fat binary, page aligned: yes
  host-x86_64-unknown-linux-gnu-: empty
  hipv4-amdgcn-amd-amdhsa--gfx90a: code object
function _Z4onesPi _Z4onesPi -1 0
x86-64
launch _Z4onesPi grid 2,1,1 block 64
unregister once
`

func TestHost(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), programs.WithHIP(sources))
	w.Write(".bazelrc", "common --@rules_offload//rules/settings:hip_runtime=//:runtime\n")
	t.Run("x86-64", func(t *testing.T) { testHere(t, w) })
	t.Run("parts", func(t *testing.T) { testParts(t, w) })
	t.Run("sanitizer", func(t *testing.T) { testSanitizer(t, w) })
	t.Run("flags of tools", func(t *testing.T) { testTools(t, w) })
	t.Run("headers", func(t *testing.T) { testHeaders(t, w) })
	t.Run("parsed headers", func(t *testing.T) { testParsedHeaders(t, w) })
	t.Run("coverage", func(t *testing.T) { testCoverage(t, w) })
}

func testHere(t *testing.T, w *bazeltest.Workspace) {
	build(t, w, "-c", "opt", "//:app", "//:app_of_shared", "//:dump", "//:dump_of_shared", "//:threads")
	checkData(t, w, filepath.Join(w.Dir, "bazel-bin", "dump"))
	checkData(t, w, filepath.Join(w.Dir, "bazel-bin", "dump_of_shared"))
	for _, name := range []string{"app", "app_of_shared"} {
		if diff := cmp.Diff(output, run(t, filepath.Join(w.Dir, "bazel-bin", name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	t.Setenv("OMP_NUM_THREADS", "3")
	if got := run(t, filepath.Join(w.Dir, "bazel-bin", "threads")); !strings.Contains(got, "3 threads, sum 499500\n") {
		t.Errorf("the program with OpenMP printed %q", got)
	}
}

// testParts builds programs that refer to one of two objects of a library. As with cc_library, they
// contain the other object, with its kernel, only if the library is always linked. Without a
// required registration, the link fails.
func testParts(t *testing.T, w *bazeltest.Workspace) {
	names := []string{"parts", "parts_rdc", "parts_unlinked"}
	var targets []string
	for _, name := range names {
		targets = append(targets, "//:"+name+"_app", "//:"+name+"_always_app")
	}
	build(t, w, targets...)
	for _, name := range names {
		for suffix, kernels := range map[string][]string{"": {"_Z3onePi"}, "_always": {"_Z3onePi", "_Z3twoPi"}} {
			got := run(t, filepath.Join(w.Dir, "bazel-bin", name+suffix+"_app"))
			var registered []string
			for line := range strings.Lines(got) {
				if kernel, ok := strings.CutPrefix(line, "function "); ok {
					registered = append(registered, strings.Fields(kernel)[0])
				}
			}
			slices.Sort(registered)
			if !slices.Equal(registered, kernels) || !strings.Contains(got, "launch _Z3onePi") {
				t.Errorf("%s%s registers %q, want %q, and launches the first:\n%s", name, suffix, registered, kernels, got)
			}
		}
	}
	const message = "hip_device_link of //:parts_unlinked"
	if result, err := w.Try("build", "//:parts_without_code"); err == nil || !strings.Contains(result.Output, message) {
		t.Errorf("a program without device link: %v, no %q in:\n%s", err, message, result.Output)
	}
}

// checkData checks that a program prints the bundle of fill, which is in its data.
func checkData(t *testing.T, w *bazeltest.Workspace, command ...string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(w.Dir, "bazel-bin", "fill.hipfb"))
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, command[0], command[1:]...); got != string(want) || got == "" {
		t.Errorf("%s printed %d bytes, which are not the %d of the bundle", command, len(got), len(want))
	}
}

// testSanitizer checks that host code of HIP sources is instrumented where a
// feature of the C++ toolchain asks for it.
func testSanitizer(t *testing.T, w *bazeltest.Workspace) {
	build(t, w, "--features=asan", "-c", "dbg", "//:app", "//:sum")
	program := filepath.Join(w.Dir, "bazel-bin", "app")
	if diff := cmp.Diff(output, run(t, program)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := exec.Command(program, "past the end").CombinedOutput()
	if err == nil || !bytes.Contains(got, []byte("heap-buffer-overflow")) || !bytes.Contains(got, []byte("fill.hip:17")) {
		t.Errorf("%v: the sanitizer saw nothing in fill.hip:\n%s", err, got)
	}
}

// testTools checks that --host_copt, and not --copt, applies to programs that the build runs.
func testTools(t *testing.T, w *bazeltest.Workspace) {
	flags := []string{"--copt=-DCOPT", "--host_copt=-DHOST_COPT"}
	// The order matters: Bazel reuses the analysis of the first target for the second.
	for _, c := range []struct{ target, flag string }{{"//:app", "-DCOPT"}, {"//:generated", "-DHOST_COPT"}} {
		target, flag := c.target, c.flag
		commands := w.Commands(`mnemonic("OffloadHipHostCompile", deps(`+target+`))`, flags...)
		if len(commands) != 1 {
			t.Errorf("%s has %d compilations for the host", target, len(commands))
			continue
		}
		got := slices.DeleteFunc(commands[0].Arguments, func(argument string) bool { return !strings.HasSuffix(argument, "COPT") })
		if !slices.Equal(got, []string{flag}) {
			t.Errorf("%s: found %q, want %s", target, got, flag)
		}
	}
}

// testHeaders checks headers if clang is the compiler of the C++ toolchain.
func testHeaders(t *testing.T, w *bazeltest.Workspace) {
	flags := []string{"--repo_env=CC=" + llvm.Tool(t, "clang"), "--features=layering_check"}
	check := func(target string) (*bazeltest.Result, error) {
		return w.Try(append([]string{"build", target}, flags...)...)
	}
	if _, err := check("//:direct"); err != nil {
		t.Error(err)
	}
	const message = "module //:indirect does not depend on a module exporting 'gpu/fill.h'"
	if result, err := check("//:indirect"); err == nil || !strings.Contains(result.Output, message) {
		t.Errorf("//:indirect: %v: no %q in:\n%s", err, message, result.Output)
	}
}

// testParsedHeaders compiles headers separately, as HIP.
func testParsedHeaders(t *testing.T, w *bazeltest.Workspace) {
	result, err := w.Try("build", "--features=parse_headers", "//:fill", "//:sum")
	if err != nil {
		t.Fatal(err)
	}
	if n := result.Count("OffloadParseHeader"); n != 2 {
		t.Errorf("%d headers of //:fill were parsed, want 2", n)
	}
	const message = "incomplete.h:1"
	if result, err := w.Try("build", "--features=parse_headers", "//:incomplete"); err == nil || !strings.Contains(result.Output, message) {
		t.Errorf("//:incomplete: %v: no %q in:\n%s", err, message, result.Output)
	}
}

// testCoverage checks that bazel coverage counts lines of the host code of a HIP library, and none
// of its device code, if clang also compiles C++.
func testCoverage(t *testing.T, w *bazeltest.Workspace) {
	flags := []string{"--repo_env=CC=" + llvm.Tool(t, "clang"), "--repo_env=BAZEL_USE_LLVM_NATIVE_COVERAGE=1", "--collect_code_coverage", "--instrumentation_filter=//:fill"}
	build(t, w, append(flags, "//:fill")...)
	for name, want := range map[string]bool{"fill/host/fill.o": true, "fill/gfx90a/fill.o": false} {
		file, err := elf.Open(filepath.Join(w.Dir, "bazel-bin", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := file.Section("__llvm_prf_cnts") != nil && file.Section("__llvm_covmap") != nil; got != want {
			t.Errorf("%s: counters: %v, want %v", name, got, want)
		}
		file.Close()
	}
	flags[3] = "--instrumentation_filter=//:other"
	for _, command := range w.Commands(`mnemonic("OffloadHipHostCompile", //:fill)`, flags...) {
		if slices.ContainsFunc(command.Arguments, func(argument string) bool { return strings.HasPrefix(argument, "-fprofile-instr-generate") }) {
			t.Errorf("the filter leaves it out, and it counts: %q", command.Arguments)
		}
	}
}

// build runs Bazel. A failure ends the subtest only.
func build(t *testing.T, w *bazeltest.Workspace, args ...string) {
	t.Helper()
	if _, err := w.Try(append([]string{"build"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	got, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, args, err, got)
	}
	return string(got)
}
