package host

import (
	"context"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

// ofRepository is a C++ toolchain whose headers are in its repository. Rules need none of its programs but ar.
var ofRepository = bazeltest.CcToolchain{
	CPU:   "aarch64",
	Files: `glob(["libcxx/**", "sysroot/**"])`,
	Config: `
    builtin_sysroot = ROOT + "/sysroot",
    compile_flags = ["-isystem", ROOT + "/libcxx"],
    compiler = "clang",
    cxx_builtin_include_directories = [ROOT],
    tool_paths = {tool: "/usr/bin/ar" if tool == "ar" else "/bin/false" for tool in TOOLS},
`,
}

// everyCompilation has a target of each rule that compiles. The sources include two headers of the C++ toolchain.
const everyCompilation = `load("@rules_offload//rules:defs.bzl", "cuda_ptx", "device_bitcode_library", "hip_code_objects", "hip_library", "openmp_library")

platform(
    name = "aarch64",
    constraint_values = [
        "@platforms//cpu:aarch64",
        "@platforms//os:linux",
    ],
)

hip_code_objects(
    name = "kernels",
    srcs = ["kernel.hip"],
    offload_archs = ["gfx90a"],
)

hip_library(
    name = "library",
    srcs = ["host.hip"],
    offload_archs = ["gfx90a"],
)

cuda_ptx(
    name = "ptx",
    srcs = ["kernel.cu"],
    offload_archs = ["sm_80"],
)

device_bitcode_library(
    name = "bitcode",
    srcs = ["function.c", "function.hip"],
    offload_archs = ["gfx90a"],
)

openmp_library(
    name = "openmp",
    srcs = ["region.cc"],
)
`

// The headers of a C++ toolchain from a repository, and the machine of the host, reach all
// compilations, in the sandbox and on another machine.
func TestToolchainFromRepository(t *testing.T) {
	const includes = "#include <in_sysroot.h>\n#include <in_libcxx>\n"
	const machine = "#if !defined(__aarch64__)\n#error the host is AArch64\n#endif\n"
	const kernel = includes + machine + "extern \"C\" __attribute__((global)) void k(int *p) { *p = IN_SYSROOT + IN_LIBCXX; }\n"
	contents := map[string]string{
		"BUILD.bazel":            everyCompilation,
		"repository/BUILD.bazel": ofRepository.BuildFile(),
		"repository/sysroot/usr/include/in_sysroot.h": "#pragma once\n#define IN_SYSROOT 1\n",
		"repository/libcxx/in_libcxx":                 "#pragma once\n#define IN_LIBCXX 2\n",
		"kernel.hip":                                  kernel,
		"kernel.cu":                                   kernel,
		"host.hip":                                    includes + machine + "int host() { return IN_SYSROOT + IN_LIBCXX; }\n",
		"function.c":                                  includes + "int c(int a) { return a + IN_SYSROOT + IN_LIBCXX; }\n",
		"function.hip":                                includes + machine + "extern \"C\" __attribute__((device)) int d(int a) { return a + IN_SYSROOT + IN_LIBCXX; }\n",
		"region.cc": includes + machine + `int region(int *out) {
#pragma omp target map(tofrom: out[:1])
  out[0] = IN_SYSROOT + IN_LIBCXX;
  return 0;
}
`,
	}
	w := bazeltest.New(t, t.TempDir(), contents)
	w.AddModule("repository", "register_toolchains(\"@repository//:toolchain\")\n")
	server, err := reapi.Start(context.Background(), reapi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, runner := range []struct {
		name  string
		flags []string
	}{
		{"linux-sandbox", []string{"--spawn_strategy=linux-sandbox"}},
		{"remote", []string{"--spawn_strategy=remote", "--remote_executor=" + server.Address(), "--noremote_local_fallback", "--noremote_accept_cached"}},
	} {
		t.Run(runner.name, func(t *testing.T) {
			w.Bazel("clean")
			result := w.Bazel(append([]string{"build", "--platforms=//:aarch64", "//:all"}, runner.flags...)...)
			compilations := 0
			for _, spawn := range result.Spawns {
				switch spawn.Mnemonic {
				case "OffloadHipCompile", "OffloadHipHostCompile", "OffloadCudaCompile", "OffloadBitcodeCompile", "OffloadOpenMpIncludes", "OffloadOpenMpCompile":
					compilations++
					if spawn.Runner != runner.name {
						t.Errorf("%s ran by %s, want %s", spawn.Mnemonic, spawn.Runner, runner.name)
					}
				}
			}
			if compilations != 8 {
				t.Errorf("%d compilations, want 8", compilations)
			}
		})
	}
}
