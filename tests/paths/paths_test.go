// Package paths checks that no command line of the rules has a path of the machine, and that all of
// them work if Bazel maps paths: then the outputs of all configurations have the same paths, and
// actions of one configuration are cached for the others.
package paths

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// contents is a workspace with a target of every rule, including generated sources and headers.
var contents = map[string]string{
	"BUILD.bazel": `load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_offload//rules:defs.bzl", "hip_code_objects", "hip_library", "offload_archive", "offload_binary", "offload_bundle", "offload_extract", "offload_register", "offload_unbundle", "openmp_library")

genrule(name = "factor", outs = ["include/factor.h"], cmd = "echo '#define FACTOR 3' > $@")

genrule(name = "source", srcs = ["scale.hip"], outs = ["generated.hip"], cmd = "sed s/scale/generated/ $< > $@")

cc_library(name = "device", hdrs = ["lib/device.h"], strip_include_prefix = "lib")

hip_code_objects(
    name = "kernels",
    srcs = ["scale.hip", "generated.hip"],
    hdrs = ["include/factor.h"],
    includes = ["include"],
    offload_archs = ["gfx90a", "gfx1100"],
    deps = [":device"],
)

offload_bundle(name = "fat", images = [":kernels"], compress = "zstd")
offload_unbundle(name = "single", bundle = ":fat", targets = ["gfx90a"])
offload_archive(name = "archive", bundles = [":fat"])
offload_unbundle(name = "from_archive", bundle = ":archive", targets = ["gfx1100"], type = "a")
offload_binary(name = "binary", images = [":kernels"])
offload_extract(name = "extracted", src = ":binary", targets = ["gfx1100"])
offload_register(name = "registered", bundle = ":fat")

hip_library(
    name = "hip",
    srcs = ["scale.hip"],
    hdrs = ["include/factor.h"],
    includes = ["include"],
    offload_archs = ["gfx90a"],
    deps = [":device"],
)

openmp_library(name = "openmp", srcs = ["region.c"], hdrs = ["include/factor.h"], includes = ["include"], offload_archs = ["x86_64-pc-linux-gnu"])

`,
	"lib/device.h": `#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, decltype(sizeof(0)), struct Stream *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, decltype(sizeof(0)) *, struct Stream **);
`,
	"scale.hip": `#include <device.h>
#include <factor.h>
extern "C" __global__ void scale(int *p) { *p *= FACTOR; }
`,
	"region.c": `#include <factor.h>
void region(int *x) {
#pragma omp target map(tofrom : x[0 : 1])
  *x *= FACTOR;
}
`,
}

// outputs are the outputs that are compared between builds with and without mapped paths.
var outputs = []string{
	"kernels/gfx90a.co", "kernels/gfx1100.co", "fat.hipfb", "single/gfx90a.co", "libarchive.a", "from_archive/gfx1100.a", "binary.ofb",
	"extracted/gfx1100.co", "registered.register.o", "hip/host/scale.fatbin.o", "hip/host/scale.o", "openmp.register.o", "openmp/host/region.o",
}

// mnemonics are those of all actions of the rules in the workspace.
const mnemonics = 17

// commands returns the command lines of all actions of the rules, by mnemonic.
func commands(w *bazeltest.Workspace, flags ...string) map[string][][]string {
	all := map[string][][]string{}
	for _, action := range w.Commands(`mnemonic("Offload.*", //...)`, flags...) {
		all[action.Mnemonic] = append(all[action.Mnemonic], action.Arguments)
	}
	return all
}

// paths returns the paths in an argument, which can follow an option or be the value of a property.
// A shell script contains none.
func paths(argument string) []string {
	if strings.Contains(argument, "\n") {
		return nil
	}
	return strings.FieldsFunc(argument, func(r rune) bool { return r == '=' || r == ',' || r == ' ' || r == '@' })
}

func TestNoPathOfTheMachine(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), contents)
	plain, mapped := commands(w), commands(w, "--experimental_output_paths=strip")
	if len(plain) != mnemonics {
		t.Errorf("%d mnemonics, want %d", len(plain), mnemonics)
	}
	for name, lines := range plain {
		configured := false
		for _, line := range lines {
			for i, argument := range line {
				for _, path := range paths(argument) {
					// Bazel chooses the shell of actions that read standard input. //file is the
					// form of a file of the workspace in messages.
					if filepath.IsAbs(path) && !strings.HasPrefix(path, "//") && !(i == 0 && filepath.Base(path) == "bash") {
						t.Errorf("%s: absolute path in %q", name, argument)
					}
				}
				configured = configured || strings.Contains(argument, "-fastbuild/")
			}
		}
		if !configured {
			t.Errorf("%s: no path has a configuration when paths are not mapped: this test sees nothing", name)
		}
	}
	for name, lines := range mapped {
		for _, line := range lines {
			for _, argument := range line {
				if strings.Contains(argument, "bazel-out/") && !strings.Contains(argument, "bazel-out/cfg/") {
					t.Errorf("%s: %q is not mapped", name, argument)
				}
			}
		}
	}

	first := build(t, w)
	w.Bazel("clean")
	if diff := cmp.Diff(first, build(t, w, "--experimental_output_paths=strip", "--spawn_strategy=linux-sandbox")); diff != "" {
		t.Errorf("bytes differ when paths are mapped (-plain +mapped):\n%s", diff)
	}
}

func build(t *testing.T, w *bazeltest.Workspace, flags ...string) map[string]string {
	t.Helper()
	w.Bazel(append([]string{"build", "//..."}, flags...)...)
	sums := map[string]string{}
	for _, name := range outputs {
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(w.Read(name)))
	}
	return sums
}
