// Package editors has clangd look at sources through the compile_commands.json
// that //tools:compile_commands writes.
//
// It fetches clangd from Debian, so Bazel does not run it:
//
//	tools/offline/run go test ./tests/editors
package editors

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// files is a workspace with sources of all languages. Most of them require a header of another
// package, a generated header, or a define of their rule: without the right flags, they do not
// compile.
var files = map[string]string{
	"BUILD.bazel": `load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_offload//rules:defs.bzl", "cuda_ptx", "hip_code_objects", "hip_library", "openmp_library")

genrule(
    name = "generated",
    outs = ["generated.h"],
    cmd = "echo '#define GENERATED 1' > $@",
)

hip_library(
    name = "library",
    srcs = ["library.hip"],
    hdrs = ["generated.h"],
    local_defines = ["FACTOR=2"],
    offload_archs = ["gfx90a", "gfx1100"],
    deps = ["//device"],
)

hip_code_objects(
    name = "kernels",
    srcs = ["kernels.hip"],
    offload_archs = ["gfx1100"],
    deps = ["//device"],
)

cuda_ptx(
    name = "ptx",
    srcs = ["ptx.cu"],
    offload_archs = ["sm_70"],
    deps = ["//device"],
)

openmp_library(
    name = "openmp",
    srcs = ["openmp.c", "target.cc"],
    offload_archs = ["gfx90a", "x86_64-pc-linux-gnu"],
    deps = ["//device"],
)

cc_library(
    name = "plain",
    srcs = ["plain.cc"],
    deps = ["//device"],
)
`,
	"device/BUILD.bazel": `load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "device",
    hdrs = ["include/device.h"],
    strip_include_prefix = "include",
    visibility = ["//visibility:public"],
)
`,
	"device/include/device.h": `#pragma once
#define SIZE 64
`,
	"library.hip": `#include <device.h>
#include "generated.h"
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#if !GENERATED
#error
#endif
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void **);
__device__ int twice(int value) {
#ifdef __HIP_DEVICE_COMPILE__
  return value * FACTOR + __builtin_amdgcn_workitem_id_x();
#else
  return value * FACTOR;
#endif
}
__global__ void library(int *data) { data[SIZE] = twice(data[0]); }
`,
	"kernels.hip": `#include <device.h>
__attribute__((global)) void kernel(int *data) { data[__builtin_amdgcn_workitem_id_x()] = SIZE; }
`,
	"ptx.cu": `#include <device.h>
__attribute__((global)) void kernel(int *data) { data[__nvvm_read_ptx_sreg_tid_x()] = SIZE; }
`,
	"openmp.c": `#include <device.h>
#include <math.h>
void scale(double *data) {
#pragma omp target teams distribute parallel for map(tofrom : data[0 : SIZE])
  for (int i = 0; i < SIZE; i++) data[i] = sqrt(data[i]);
}
`,
	"target.cc": `#include <device.h>
#include <cmath>
double root(double value); // clangd parses the text before the first declaration separately: a pragma must not begin there
#pragma omp declare target
double root(double value) { return std::sqrt(value) * SIZE; }
#pragma omp end declare target
`,
	"plain.cc": `#include <device.h>
#include <vector>
std::vector<int> numbers(SIZE);
`,
}

// entry is an entry of compile_commands.json.
type entry struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Arguments []string `json:"arguments"`
}

func (e entry) has(argument string) bool { return slices.Contains(e.Arguments, argument) }

func TestClangd(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), files)
	sources := bazeltest.Sources(t)
	command := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = sources
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, err.(*exec.ExitError).Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	clangd := command(filepath.Join(sources, "tools", "offline", "clangd"))

	// Generated headers, and links to headers with a prefix, exist after a build.
	w.Bazel("build", "//:kernels", "//:library", "//:plain", "//:ptx")
	program := filepath.Join(t.TempDir(), "compile_commands")
	command("go", "build", "-o", program, "./tools/compile_commands")
	run := exec.Command(program)
	run.Dir = w.Dir
	run.Env = append(os.Environ(), "BUILD_WORKSPACE_DIRECTORY="+w.Dir, "BAZEL="+filepath.Join(sources, "bazelw"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(w.Dir, "compile_commands.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatal(err)
	}
	byFile := map[string][]entry{}
	for _, e := range entries {
		name, err := filepath.Rel(w.Dir, e.File)
		if err != nil {
			t.Fatal(err)
		}
		byFile[name] = append(byFile[name], e)
	}

	check := func(folder, file string) (string, bool) {
		cmd := exec.Command(clangd, "--resource-dir="+llvm.Dir+"/../lib/clang/22", "--compile-commands-dir="+folder, "--check="+filepath.Join(w.Dir, file))
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "Compile command from CDB is") {
			t.Errorf("%s: clangd has no command:\n%s", file, out)
		}
		return string(out), err == nil && strings.Contains(string(out), "All checks completed, 0 errors")
	}
	for name, compilations := range map[string][]string{
		"library.hip": {"--offload-host-only", "--offload-arch=gfx90a", "--offload-arch=gfx1100"},
		"kernels.hip": {"--offload-arch=gfx1100"},
		"ptx.cu":      {"--offload-arch=sm_70"},
		"openmp.c":    {"--offload-host-only", "gfx90a", "--target=x86_64-pc-linux-gnu"},
		"target.cc":   {"--offload-host-only", "gfx90a", "--target=x86_64-pc-linux-gnu"},
		"plain.cc":    {"-c++"},
	} {
		if len(byFile[name]) != len(compilations) {
			t.Errorf("%s: %d entries, want %d: %v", name, len(byFile[name]), len(compilations), byFile[name])
			continue
		}
		for i, want := range compilations {
			e := byFile[name][i]
			if want != "-c++" && !e.has(want) {
				t.Errorf("%s: entry %d has no %s: %s", name, i, want, e.Arguments)
			}
			// clangd uses the first entry of a file, so each entry is tested alone.
			folder := t.TempDir()
			alone, err := json.Marshal([]entry{e})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "compile_commands.json"), alone, 0o644); err != nil {
				t.Fatal(err)
			}
			if out, ok := check(folder, name); !ok {
				t.Errorf("%s, %s: clangd finds errors:\n%s", name, want, out)
			}
		}
	}

	// clangd reports errors if the flags are wrong.
	for _, name := range []string{"library.hip", "openmp.c"} {
		w.Write(name, strings.ReplaceAll(files[name], "SIZE", "MISSING"))
		if out, ok := check(w.Dir, name); ok {
			t.Errorf("%s: clangd does not see an error:\n%s", name, out)
		}
	}
}
