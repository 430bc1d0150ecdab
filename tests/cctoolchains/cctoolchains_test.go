// Package cctoolchains builds one program with device code with C++ toolchains of four kinds. It fetches libc++ from Debian.
package cctoolchains

import (
	"crypto/sha256"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/programs"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "qemu-aarch64", "aarch64-linux-gnu-g++")
}

// buildFile has a target of each rule that compiles, and programs with them.
const buildFile = `load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("@rules_offload//rules:defs.bzl", "cuda_ptx", "device_bitcode_library", "hip_binary", "hip_code_objects", "hip_library", "offload_cc_data", "openmp_library")

cc_library(name = "hip", hdrs = ["hip.h", "machine.h"])

cc_library(name = "runtime", srcs = ["hiprt.c"])

cc_library(name = "openmp_runtime", srcs = ["omp.c"])

hip_library(
    name = "fill",
    srcs = ["fill.hip"],
    compress = "none",
    offload_archs = ["gfx90a"],
    deps = [":hip"],
)

openmp_library(
    name = "sum",
    srcs = ["sum.cc"],
    # Debian has no device runtime, and no device runs this code.
    device_linkopts = select({
        "@platforms//cpu:aarch64": [],
        "//conditions:default": ["-Wl,--unresolved-symbols=ignore-all"],
    }),
    # On AArch64, clang's driver adds flags of that CPU, which the compiler rejects for AMD GPUs.
    offload_archs = select({
        "@platforms//cpu:aarch64": ["aarch64-unknown-linux-gnu"],
        "//conditions:default": ["gfx90a"],
    }),
    deps = [":hip"],
)

cc_binary(name = "app", srcs = ["main.cc"], deps = [":fill", ":hip", ":sum"])

hip_binary(
    name = "hip_app",
    srcs = ["main.hip"],
    compress = "none",
    offload_archs = ["gfx90a"],
    deps = [":hip"],
)

offload_cc_data(name = "fill_data", src = ":fill", symbol = "fill_kernels")

cc_binary(name = "dump", srcs = ["dump.c"], deps = [":fill_data"])

hip_code_objects(name = "kernels", srcs = ["kernel.cu"], offload_archs = ["gfx90a"], deps = [":hip"])

cuda_ptx(name = "ptx", srcs = ["kernel.cu"], offload_archs = ["sm_80"], deps = [":hip"])

device_bitcode_library(name = "bitcode", srcs = ["function.c", "function.hip"], offload_archs = ["gfx90a"], deps = [":hip"])

# Its runtime is only for the machine of the build.
hip_binary(name = "threads", srcs = ["main.hip"], copts = ["-fopenmp"], offload_archs = ["gfx90a"], tags = ["manual"], deps = [":hip"])
`

// sources are those of the program. machine.h names the machine and the standard library with which a half of the code is
// compiled: device code reads the declarations of the host.
var sources = map[string]string{
	"BUILD.bazel": buildFile,
	"machine.h": `#pragma once
#include <climits>
#if defined(__aarch64__) != defined(AARCH64)
#error code is read for another host
#endif
#if defined(_LIBCPP_VERSION)
#define LIBRARY "libc++"
#else
#define LIBRARY "libstdc++"
#endif
#if defined(LIBCXX) != defined(_LIBCPP_VERSION)
#error code is read with another standard library
#endif
`,
	"fill.hip": `#include <memory>

#include "hip.h"
#include "machine.h"

__global__ void ones(int *p) { p[__builtin_amdgcn_workitem_id_x()] = 1; }

const char *fill() {
  auto ints = std::make_unique<int[]>(64);
  ones<<<dim3(2), dim3(64)>>>(ints.get());
  return LIBRARY;
}
`,
	"main.cc": `#include <cstdio>
#include <string>

#include "machine.h"

const char *fill();
int sum(int n);

int main() {
  std::string library = LIBRARY;
  std::printf("%s, sum %d\n", library.c_str(), sum(10));
  std::fflush(stdout);
  std::puts(fill());
}
`,
	"main.hip": `#include <cstdio>

#include "hip.h"
#include "machine.h"

__global__ void one(int *p) { *p = CHAR_BIT; }

int main() {
  one<<<dim3(1), dim3(1)>>>(nullptr);
  std::puts(LIBRARY);
}
`,
	"sum.cc": `#include <vector>

#include "machine.h"

int sum(int n) {
  std::vector<int> values(n, 2);
  int all = 0, *data = values.data();
#pragma omp target map(to : data[:n]) map(tofrom : all)
  for (int i = 0; i < n; i++) all += data[i];
  return all;
}
`,
	"kernel.cu":    "#include \"machine.h\"\nextern \"C\" __attribute__((global)) void k(int *p) { *p = CHAR_BIT; }\n",
	"function.c":   "#include <stddef.h>\nint c(int a) { return a + sizeof(size_t); }\n",
	"function.hip": "#include \"machine.h\"\nextern \"C\" __attribute__((device)) int d(int a) { return a + CHAR_BIT; }\n",
	"dump.c":       "#include \"fill_data.h\"\n\n#include <stdio.h>\n\nint main(void) { return fwrite(fill_kernels, 1, fill_kernels_size, stdout) != fill_kernels_size; }\n",
	// A runtime without devices: the host computes.
	"omp.c": `void __tgt_register_lib(void *images) {}
void __tgt_unregister_lib(void *images) {}
int __tgt_target_kernel(void *place, long device, int teams, int threads, void *host, void *arguments) { return -1; }
`,
}

const output = `fat binary, page aligned: yes
  host-TRIPLE-: empty
  hipv4-amdgcn-amd-amdhsa--gfx90a: code object
function _Z4onesPi _Z4onesPi -1 0
LIBRARY, sum 20
launch _Z4onesPi grid 2,1,1 block 64
LIBRARY
unregister once
`

// toolchain is a C++ toolchain.
type toolchain struct {
	name    string
	flags   []string // of Bazel
	triple  string
	library string   // the standard library
	run     []string // runs programs of its machine
}

func toolchains(clang string) []toolchain {
	cross := []string{"--platforms=//cross:aarch64", "--extra_toolchains=//cross:toolchain", "--copt=-DAARCH64"}
	return []toolchain{
		{"GCC", nil, "x86_64-unknown-linux-gnu", "libstdc++", nil},
		{"clang", []string{"--repo_env=CC=" + clang}, "x86_64-unknown-linux-gnu", "libstdc++", nil},
		{"clang, libc++ and sysroot from a repository", []string{"--extra_toolchains=@repository//:toolchain", "--copt=-DLIBCXX"}, "x86_64-unknown-linux-gnu", "libc++", nil},
		{"GCC for AArch64", cross, "aarch64-unknown-linux-gnu", "libstdc++", []string{"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"}},
	}
}

func TestToolchains(t *testing.T) {
	w := workspace(t)
	var kernels map[string][32]byte
	for _, c := range toolchains(llvm.Tool(t, "clang")) {
		t.Run(c.name, func(t *testing.T) {
			build(t, w, append(c.flags, "//...")...)
			want := strings.NewReplacer("TRIPLE", c.triple, "LIBRARY", c.library).Replace(output)
			if diff := cmp.Diff(want, run(t, c, filepath.Join(w.Dir, "bazel-bin", "app"))); diff != "" {
				t.Errorf("app (-want +got):\n%s", diff)
			}
			if got := run(t, c, filepath.Join(w.Dir, "bazel-bin", "hip_app")); !strings.Contains(got, "launch _Z3onePi") || !strings.Contains(got, "\n"+c.library+"\n") {
				t.Errorf("hip_app printed %q", got)
			}
			bundle, err := os.ReadFile(filepath.Join(w.Dir, "bazel-bin", "fill.hipfb"))
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, c, filepath.Join(w.Dir, "bazel-bin", "dump")); got != string(bundle) {
				t.Errorf("dump printed %d bytes, which are not the %d of the bundle", len(got), len(bundle))
			}
			got := deviceCode(t, w, c)
			if kernels == nil {
				kernels = got
			}
			for image, sum := range got {
				if kernels[image] != sum {
					t.Errorf("%s is not that of the first toolchain", image)
				}
			}
		})
	}
	t.Run("no runtime for AArch64", func(t *testing.T) {
		const message = "libomp, clang's OpenMP runtime, which host code compiled with -fopenmp requires and the linker did not find: install it"
		if result, err := w.Try(append([]string{"build", "//:threads"}, toolchains("")[3].flags...)...); err == nil || !strings.Contains(result.Output, message) {
			t.Errorf("//:threads: %v: no %q in:\n%s", err, message, result.Output)
		}
	})
}

// deviceCode returns the checksums of the code for GPUs, by the name of the image.
func deviceCode(t *testing.T, w *bazeltest.Workspace, c toolchain) map[string][32]byte {
	t.Helper()
	code := map[string][32]byte{}
	for name, read := range map[string]func(string) ([]byte, error){
		"fill/gfx90a.co":        os.ReadFile,
		"hip_app_hip/gfx90a.co": os.ReadFile,
		"kernels/gfx90a.co":     os.ReadFile,
		"ptx/sm_80.ptx":         os.ReadFile,
		"sum/gfx90a.img":        instructions,
	} {
		if strings.HasPrefix(name, "sum/") && strings.HasPrefix(c.triple, "aarch64") {
			continue
		}
		content, err := read(filepath.Join(w.Dir, "bazel-bin", name))
		if err != nil {
			t.Error(err)
		}
		code[name] = sha256.Sum256(content)
	}
	return code
}

// instructions returns the code of an image of OpenMP. The names of its kernels have the number of a line in the source with
// all its headers, which differ.
func instructions(name string) ([]byte, error) {
	file, err := elf.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Section(".text").Data()
}

// workspace has the program and the toolchains.
func workspace(t *testing.T) *bazeltest.Workspace {
	t.Helper()
	contents := programs.WithHIP(sources)
	contents["cross/BUILD.bazel"] = crossCompiler.BuildFile() + platformFile
	contents["repository/BUILD.bazel"] = ofRepository(filepath.Dir(llvm.Tool(t, "clang"))).BuildFile()
	contents[".bazelrc"] = "common --@rules_offload//rules/settings:hip_runtime=//:runtime --@rules_offload//rules/settings:openmp_runtime=//:openmp_runtime\n" +
		// Bazel deletes sandboxes beside the build, and fails if it deletes everything meanwhile.
		"common --experimental_sandbox_async_tree_delete_idle_threads=0\n"
	w := bazeltest.New(t, t.TempDir(), contents)
	w.AddModule("repository", "")
	fillRepository(t, filepath.Join(w.Dir, "repository"))
	return w
}

// fillRepository makes libc++ and a sysroot of Debian's files.
func fillRepository(t *testing.T, dir string) {
	t.Helper()
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	fetch := exec.Command(filepath.Join(project, "tools", "offline", "libcxx"))
	fetch.Stderr = os.Stderr
	libcxx, err := fetch.Output()
	if err != nil {
		t.Fatalf("libc++ is needed: %v", err)
	}
	if err := os.Symlink(strings.TrimSpace(string(libcxx)), filepath.Join(dir, "libcxx")); err != nil {
		t.Fatal(err)
	}
	files, err := exec.Command("dpkg", "-L", "libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1", "libgcc-16-dev").Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() || !inSysroot(file) {
			continue
		}
		to := filepath.Join(dir, "sysroot", file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(dir, "sysroot", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// inSysroot reports whether programs require a file: not the headers of other machines, and not most of the kernel's, of
// which there are thousands.
func inSysroot(file string) bool {
	if strings.HasPrefix(file, "/usr/lib") {
		return true
	}
	header, ok := strings.CutPrefix(file, "/usr/include/")
	folder, rest, _ := strings.Cut(header, "/")
	return ok && (!strings.Contains(folder, "-linux-") || folder == "x86_64-linux-gnu") && (folder != "linux" || !strings.Contains(rest, "/"))
}

// build runs Bazel; a failure ends the subtest, and the others go on.
func build(t *testing.T, w *bazeltest.Workspace, args ...string) {
	t.Helper()
	if _, err := w.Try(append([]string{"build"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, c toolchain, program string) string {
	t.Helper()
	words := append(c.run[:len(c.run):len(c.run)], program)
	got, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", words, err, got)
	}
	return string(got)
}
