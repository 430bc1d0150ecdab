package incremental

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

// tracked are targets of all kinds that compile for a device. They can include the same headers,
// and read some of them.
func tracked() map[string]string {
	return map[string]string{
		"BUILD.bazel": `load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_offload//rules:defs.bzl", "cuda_ptx", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")

cc_library(
    name = "headers",
    hdrs = glob(["first/*.h", "second/*.h"]) + [
        "read.h",
        "unread.h",
        "some where/do$l#r.h",
    ],
    includes = ["first", "second"],
)

cc_library(
    name = "virtual",
    hdrs = ["first/device.h", "first/unread.h"],
    include_prefix = "virtual",
    strip_include_prefix = "first",
)

[
    genrule(
        name = name,
        srcs = [name + ".txt"],
        outs = [name + ".h"],
        cmd = "(echo '#pragma once'; cat $<) > $@",
    )
    for name in ["read", "unread"]
]

hip_code_objects(
    name = "kernels",
    srcs = ["a.hip", "b.hip"],
    offload_archs = ["gfx90a", "gfx1100"],
    deps = [":headers", ":virtual"],
)

hip_library(
    name = "library",
    srcs = ["b.hip"],
    hdrs = ["library.h"],
    compress = "none",
    features = ["parse_headers"],
    implementation_deps = [":headers"],
    offload_archs = ["gfx90a"],
)

openmp_library(
    name = "openmp",
    srcs = ["region.cc"],
    implementation_deps = [":headers"],
)

cuda_ptx(
    name = "ptx",
    srcs = ["b.hip.cu"],
    offload_archs = ["sm_80"],
    deps = [":headers"],
)

device_bitcode_library(
    name = "bitcode",
    srcs = ["sum.c", "twice.ll"],
    offload_archs = ["gfx90a"],
    deps = [":headers"],
)
`,
		"a.hip": `#include "device.h"
#include "value.h"
#include "read.h"
#include "virtual/device.h"
#include "some where/do$l#r.h"
#ifdef __gfx90a__
#include "gfx90a.h"
#endif
#if __has_include("perhaps.h")
#define VALUE_OF_PERHAPS 1
#else
#define VALUE_OF_PERHAPS 0
#endif
extern "C" __global__ void a(int *out) { *out = VALUE + VALUE_OF_PERHAPS + DOLLAR; }
`,
		"b.hip": `#include "device.h"
#include "launch.h"
extern "C" __global__ void b(int *out) { *out = 2; }
`,
		"b.hip.cu": "#include \"device.h\"\nextern \"C\" __global__ void b(int *out) { *out = 2; }\n",
		"region.cc": `#include "value.h"
int region(int *out) {
#pragma omp target map(tofrom: out[:1])
  out[0] = VALUE;
  return 0;
}
`,
		"sum.c":               "#include \"value.h\"\nint sum(int a) { return a + VALUE; }\n",
		"twice.ll":            "define i32 @twice(i32 %a) {\n  %b = add i32 %a, %a\n  ret i32 %b\n}\n",
		"read.txt":            "// read\n",
		"unread.txt":          "// not read\n",
		"library.h":           "#pragma once\nint library();\n",
		"first/below.h":       "#pragma once\n#define BELOW 1\n",
		"first/device.h":      "#pragma once\n#define __global__ __attribute__((global))\n",
		"first/gfx90a.h":      "#pragma once\n",
		"first/unread.h":      "#pragma once\n#error \"this header is not for you\"\n",
		"second/value.h":      "#pragma once\n#include \"below.h\"\n#define VALUE (BELOW + 1)\n",
		"second/launch.h":     launch,
		"some where/do$l#r.h": "#pragma once\n#define DOLLAR 3\n",
	}
}

// outputs are outputs of compilations.
func outputs(result *bazeltest.Result) []string {
	var all []string
	for mnemonic, outputs := range work(result) {
		if strings.HasSuffix(mnemonic, "Compile") || mnemonic == "OffloadOpenMpIncludes" || mnemonic == "OffloadParseHeader" {
			all = append(all, outputs...)
		}
	}
	slices.Sort(all)
	return all
}

// The compilations of the sources of tracked, by the headers that they read.
var (
	readsA     = []string{"kernels/gfx1100/a.o", "kernels/gfx90a/a.o"}
	readsValue = append([]string{
		"bitcode/gfx90a/sum.bc", "openmp/host/region.bc", "openmp/region.full.cc", "openmp/x86_64-unknown-linux-gnu/region.o",
	}, readsA...)
	readsB = []string{"kernels/gfx1100/b.o", "kernels/gfx90a/b.o", "library/gfx90a/b.o", "library/host/b.o"}
)

// A changed header repeats the compilations that read it, and no others.
func TestHeaders(t *testing.T) {
	contents := tracked()
	w := bazeltest.New(t, t.TempDir(), contents)
	build := func() []string {
		t.Helper()
		return outputs(w.Bazel("build", "//:all"))
	}
	all := build()
	edit := func(name, text string, want []string) {
		t.Helper()
		w.Write(name, contents[name]+text)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), build(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s changed (-want +compiled):\n%s", name, diff)
		}
	}
	edit("first/unread.h", "// edited\n", nil)
	edit("unread.txt", "// edited\n", nil)
	edit("first/gfx90a.h", "#define GFX90A\n", []string{"kernels/gfx90a/a.o"})
	edit("some where/do$l#r.h", "// edited\n", readsA)
	edit("read.txt", "// edited\n", readsA)
	edit("first/below.h", "// edited\n", readsValue)
	edit("second/launch.h", "// edited\n", readsB)
	edit("library.h", "// edited\n", []string{"library/headers/library.parsed"})

	// The lists outlive the server.
	w.Bazel("shutdown")
	edit("first/unread.h", "// edited again\n", nil)

	// A source includes another header.
	edit("b.hip", "#include \"gfx90a.h\"\n", readsB)
	edit("first/gfx90a.h", "#define GFX90A 2\n", append([]string{"kernels/gfx90a/a.o"}, readsB...))

	bytesOf := func() map[string]string {
		t.Helper()
		result := map[string]string{}
		for _, name := range all {
			result[name] = string(w.Read(name))
		}
		return result
	}
	changed := func(before, after map[string]string) []string {
		var names []string
		for name := range before {
			if before[name] != after[name] {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}

	// A new header hides another one, or is found by __has_include.
	before := bytesOf()
	w.Write("first/value.h", "#pragma once\n#define VALUE 100\n")
	build()
	shadowed := bytesOf()
	want := slices.Sorted(slices.Values(readsValue))
	if diff := cmp.Diff(want, changed(before, shadowed)); diff != "" {
		t.Errorf("a header hides another (-want +changed):\n%s", diff)
	}
	w.Write("first/perhaps.h", "#pragma once\n")
	build()
	if diff := cmp.Diff(slices.Sorted(slices.Values(readsA)), changed(shadowed, bytesOf())); diff != "" {
		t.Errorf("__has_include finds a header (-want +changed):\n%s", diff)
	}
	edit("first/perhaps.h", "// edited\n", readsA) // it was searched for, not read

	// A header is deleted.
	for _, name := range []string{"first/value.h", "first/perhaps.h"} {
		if err := os.Remove(filepath.Join(w.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	build()
	after := bytesOf()
	if names := changed(before, after); len(names) > 0 {
		t.Errorf("without the additional headers, these differ: %q", names)
	}

	w.Bazel("clean")
	build()
	if names := changed(after, bytesOf()); len(names) > 0 {
		t.Errorf("built from nothing, these differ: %q", names)
	}
}

// all makes TestHeadersEverywhere build with all strategies, which takes minutes, instead of the
// two that differ most.
var all = flag.Bool("all", false, "build also locally and with caches")

// The lists have the same effect wherever compilations run and wherever their results come from.
func TestHeadersEverywhere(t *testing.T) {
	server, err := reapi.Start(context.Background(), reapi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	contents := tracked()
	w := bazeltest.New(t, t.TempDir(), contents)
	compiled := []string{"kernels/gfx1100/a.o", "kernels/gfx1100/b.o", "kernels/gfx90a/a.o", "kernels/gfx90a/b.o"}
	cache := "--disk_cache=" + t.TempDir()
	for edit, test := range []struct {
		name, runner string
		flags        []string
	}{
		{"local", "local", []string{"--spawn_strategy=local"}},
		{"stripped paths", "linux-sandbox", []string{"--spawn_strategy=sandboxed", "--experimental_output_paths=strip"}},
		{"to a disk cache", "linux-sandbox", []string{cache}},
		{"from a disk cache", "disk cache hit", []string{cache}},
		{"remote", "remote", []string{"--remote_executor=" + server.Address(), "--spawn_strategy=remote", "--noremote_local_fallback", "--remote_download_outputs=minimal"}},
		{"from a remote cache", "remote cache hit", []string{"--remote_executor=" + server.Address(), "--spawn_strategy=remote", "--noremote_local_fallback", "--remote_download_outputs=minimal"}},
	} {
		if !*all && test.name != "stripped paths" && test.name != "remote" {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			build := func() *bazeltest.Result {
				t.Helper()
				return w.Bazel(append([]string{"build", "//:kernels"}, test.flags...)...)
			}
			change := func(name string) []string {
				t.Helper()
				before := contents[name]
				w.Write(name, fmt.Sprintf("%s// %d\n", before, edit))
				done := outputs(build())
				w.Write(name, before)
				return done
			}
			first := build()
			for _, spawn := range first.Spawns {
				if spawn.Mnemonic == "OffloadHipCompile" && spawn.Runner != test.runner {
					t.Errorf("%s: %s, want %s", spawn.Outputs, spawn.Runner, test.runner)
				}
			}
			if diff := cmp.Diff(compiled, outputs(first)); diff != "" {
				t.Errorf("built (-want +compiled):\n%s", diff)
			}
			for _, name := range []string{"first/unread.h", "unread.txt"} {
				if done := change(name); len(done) > 0 {
					t.Errorf("%s changed: compiled %q", name, done)
				}
			}
			if diff := cmp.Diff([]string{"kernels/gfx90a/a.o"}, change("first/gfx90a.h")); diff != "" {
				t.Errorf("a header for one GPU changed (-want +compiled):\n%s", diff)
			}
			w.Bazel("clean")
		})
	}
	w.Bazel("build", "//:kernels", "--@rules_offload//rules/settings:track_headers=false")
	w.Write("first/unread.h", contents["first/unread.h"]+"// edited\n")
	done := outputs(w.Bazel("build", "//:kernels", "--@rules_offload//rules/settings:track_headers=false"))
	if diff := cmp.Diff(compiled, done); diff != "" {
		t.Errorf("with track_headers=false, a header changed (-want +compiled):\n%s", diff)
	}
}
