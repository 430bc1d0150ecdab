// Package messages checks error messages of the rules that an analysis test cannot cause: those of
// repositories and actions.
package messages

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "clang")
}

const buildFile = `
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("@rules_offload//rules:defs.bzl", "offload_archive", "offload_binary", "offload_cc_data", "hip_binary", "hip_device_link", "hip_library", "if_arch", "offload_embed", "offload_extract", "offload_images", "offload_link", "offload_per_arch", "offload_register", "openmp_library")

# Checks.
offload_bundle(name = "over_budget", images = [":kernels"], max_size = "1KiB")
offload_images(name = "mislabeled", srcs = {":one": "gfx942"})
offload_unbundle(name = "one", bundle = ":fat", targets = ["gfx1100"])
offload_bundle(name = "mislabeled_fat", images = [":mislabeled"])

# Files that are not what they should be, or do not have what they should.
offload_unbundle(name = "no_bundle", bundle = "device.h", targets = ["gfx942"])
offload_archive(name = "archive", bundles = [":fat"])
offload_unbundle(name = "not_in_archive", bundle = ":archive", targets = ["gfx942"], type = "a")
offload_unbundle(name = "no_archive", bundle = "device.h", targets = ["gfx942"], type = "a")
offload_binary(name = "binary", images = [":kernels"])
offload_extract(name = "not_in_binary", src = ":binary", targets = ["gfx942"])
offload_extract(name = "nothing_in_it", src = "device.h", targets = ["gfx942"])
offload_binary(name = "twice", images = [":one", ":kernels"])
offload_extract(name = "several", src = ":twice", targets = ["gfx1100"])
offload_register(name = "registered_binary", bundle = ":binary")
offload_embed(name = "embedded", images = [":binary"], src = "text.o")
cc_library(name = "host_only", srcs = ["host.cc"])
offload_link(name = "nothing_to_link", deps = [":host_only"])
offload_archive(name = "conflict_archive", bundles = ["conflict.hipfb"])

openmp_library(name = "omp", srcs = ["host.cc"])

hip_code_objects(name = "includes_source", srcs = ["includes.hip"], offload_archs = ["gfx942"])
hip_code_objects(name = "includes_hip", srcs = ["hip.hip"], offload_archs = ["gfx942"])

# The GPUs of this machine.
hip_code_objects(name = "native", srcs = ["a.hip"], offload_archs = select({"//conditions:default": ["native"]}))
hip_code_objects(name = "kernels_native", srcs = ["a.hip"])
offload_bundle(name = "native_fat", images = [":native"])
offload_unbundle(name = "not_native", bundle = ":native_fat", targets = ["gfx803"])
offload_per_arch(name = "native_per_arch", images = [":kernels_native"], offload_archs = ["gfx1200", "native"])
offload_bundle(name = "native_per_arch_fat", images = [":native_per_arch"])
offload_unbundle(name = "not_native_per_arch", bundle = ":native_per_arch_fat", targets = ["gfx803"])

# Programs without a runtime.
hip_binary(name = "no_hip_runtime", srcs = ["launches.hip"], offload_archs = ["gfx942"])
cc_binary(name = "no_openmp_runtime", srcs = ["main.cc"], deps = [":omp"])

# Device code that calls what nobody defines.
hip_code_objects(name = "calls_nobody", srcs = ["calls.hip"], offload_archs = ["gfx942"])
hip_code_objects(name = "calls_nobody_rdc", srcs = ["a.hip", "calls.hip"], offload_archs = ["gfx942"], rdc = True)
hip_library(name = "calls_nobody_library", srcs = ["calls.hip"], device_link = False, offload_archs = ["gfx942"], rdc = True)
hip_device_link(name = "calls_nobody_link", deps = [":calls_nobody_library"])
openmp_library(name = "calls_nobody_openmp", srcs = ["calls.cc"], device_linkopts = ["-Wl,--as-needed"], offload_archs = ["gfx942"])
openmp_library(name = "calls_no_runtime", srcs = ["calls.cc"], offload_archs = ["gfx942"])
genrule(
    name = "fat_object",
    srcs = ["calls.hip"],
    outs = ["calls.fat.o"],
    cmd = "CLANG -x hip -nogpuinc -nogpulib --offload-new-driver -fgpu-rdc --offload-arch=gfx942 -c $< -o $@",
)
offload_link(name = "calls_nobody_fat", srcs = ["calls.fat.o"])

# Files that are no device code.
offload_register(name = "registered_source", bundle = "a.hip")
offload_archive(name = "archived_library", bundles = [":host_only"])
offload_cc_data(name = "source_as_data", src = "a.hip")
hip_code_objects(name = "choosing", srcs = if_arch({"cdna2": ["b.hip"]}, ["a.hip"]))
hip_code_objects(
    name = "selecting",
    srcs = select({"//conditions:default": ["a.hip"], "@rules_offload//rules/arch:gfx90a": ["b.hip"]}),
    offload_archs = ["gfx90a", "gfx942"],
)
`

const nativeFile = `load("@rules_offload//rules:native.bzl", "NATIVE_ARCHS")

fail("loaded", NATIVE_ARCHS)
`

const moduleFile = `
offload.archive_clang(name = "no_checksum", urls = ["file://DIR/clang.tar"])
offload.archive_clang(name = "wrong_prefix", sha256 = "SUM", strip_prefix = "bin", urls = ["file://DIR/clang.tar"])
offload.archive_clang(name = "no_lld", sha256 = "SUM", urls = ["file://DIR/clang.tar"])
offload.prebuilt(name = "program_without_checksum", urls = ["file://DIR/tools/offload"])
offload.system_clang(name = "no_rocm", rocm_path = "/nowhere")
offload.system_clang(name = "no_clang", path = "/nowhere")
offload.archive_clang(name = "old_archive", sha256 = "OLD", urls = ["file://DIR/old.tar"])
offload.system_clang(name = "debian", rocm_path = "DIR/debian")
offload.system_clang(name = "therock", rocm_path = "DIR/therock")
use_repo(offload, "debian", "old_archive", "therock")
use_repo(offload, "no_checksum", "no_clang", "no_lld", "no_rocm", "program_without_checksum", "wrong_prefix")
`

const setting = "--@rules_offload//rules/settings:"

func TestMessages(t *testing.T) {
	contents := bazeltest.Kernels()
	contents["BUILD.bazel"] += strings.ReplaceAll(buildFile, "CLANG", llvm.Tool(t, "clang"))
	contents["calls.hip"] = hipHeader + "__attribute__((device)) int nowhere(int);\n__attribute__((global)) void f(int *p) { *p = nowhere(*p); }\n"
	contents["launches.hip"] = hipHeader + "__attribute__((global)) void f() {}\nint main() { return 0; }\n"
	contents["calls.cc"] = "#pragma omp declare target\nint nowhere(int);\n#pragma omp end declare target\nvoid f(int *p) {\n#pragma omp target map(tofrom : p[0])\n  p[0] = nowhere(p[0]);\n}\n"
	contents["a.hip"] = "__attribute__((global)) void f() {}\n"
	contents["b.hip"] = contents["a.hip"]
	contents["native/BUILD.bazel"] = nativeFile
	contents["main.cc"] = "int main() { return 0; }\n"
	contents["host.cc"] = "int f() { return 0; }\n"
	contents["hip.hip"] = "#include <hip/hip_runtime.h>\n"
	contents["includes.hip"] = "#include \"a.hip\"\n"
	contents["text.o"] = "no object\n"
	contents["conflict.hipfb"] = conflicting()
	w := bazeltest.New(t, t.TempDir(), contents)
	sum := writeArchive(t, filepath.Join(w.Dir, "clang.tar"), "bin/clang")
	old := writeArchive(t, filepath.Join(w.Dir, "old.tar"), "bin/clang", "bin/ld.lld", "lib/clang/16/include/stddef.h")
	w.WriteProgram("old/bin/clang", oldClang)
	w.Write("old/bin/ld.lld", "")
	w.Module(strings.NewReplacer("DIR", w.Dir, "SUM", sum, "OLD", old).Replace(moduleFile))

	use := func(compiler string) []string {
		return []string{"--extra_toolchains=@" + compiler + "//:all", setting + "device_compiler=" + compiler, "//:kernels"}
	}
	programs := filepath.Join(w.Dir, "some_rocm/bin")
	w.Write("some_rocm/bin/rocm_agent_enumerator", "#!/bin/sh\necho gfx000\necho gfx90a:xnack-\necho gfx1100\necho gfx1100\n")
	if err := os.Chmod(filepath.Join(programs, "rocm_agent_enumerator"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"native", []string{"//:native"}, []string{"//:native: offload_archs: native: no AMD GPU was detected on this machine (", "--repo_env=OFFLOAD_ARCHS=gfx942"}},
		{"native of a variable", []string{"--repo_env=OFFLOAD_ARCHS=gfx90a,rdna4", "//:not_native"}, []string{"//:native_fat has no image for gfx803. It has host-x86_64-unknown-linux-gnu-, gfx90a, gfx1200, gfx1201"}},
		{"native for each architecture", []string{"--repo_env=OFFLOAD_ARCHS=gfx90a,rdna4", "//:not_native_per_arch"}, []string{"//:native_per_arch_fat has no image for gfx803. It has host-x86_64-unknown-linux-gnu-, gfx90a, gfx1200, gfx1201"}},
		{"native for each architecture in the setting", []string{"--repo_env=OFFLOAD_ARCHS=", setting + "offload_archs=native", "//:native_per_arch"}, []string{"//:kernels_native: offload_archs: native: no AMD GPU was detected on this machine (", "--repo_env=OFFLOAD_ARCHS=gfx942"}},
		{"native of a program", []string{"--repo_env=PATH=" + programs + ":" + os.Getenv("PATH"), "//:not_native"}, []string{"//:native_fat has no image for gfx803. It has host-x86_64-unknown-linux-gnu-, gfx90a:xnack-, gfx1100"}},
		{"native in the setting", []string{"--repo_env=OFFLOAD_ARCHS=nosuch", setting + "offload_archs=native", "//:kernels_native"}, []string{`//:kernels_native: hip_code_objects: offload_archs: "nosuch" is not a processor of LLVM`}},
		{"native when loading", []string{"--repo_env=OFFLOAD_ARCHS=gfx90a", "//native"}, []string{`loaded ["gfx90a"]`}},
		{"select", []string{"//:selecting"}, []string{"this build is not for a single architecture", "offload_per_arch(images = [...])", "errors encountered resolving select() keys for //:selecting"}},
		{"if_arch", []string{"//:choosing"}, []string{"if_arch: this build is not for a single architecture: depend on the target through offload_per_arch(images = [...]), or skip it in other builds with target_compatible_with = requires_arch()"}},
		{"undefined symbol", []string{"//:calls_nobody"}, []string{"lld: error: undefined", `offload: undefined device symbol "nowhere(int)": referenced by calls.hip (//:calls_nobody); add a definition to the source, or set rdc = True`}},
		{"undefined symbol with rdc", []string{"//:calls_nobody_rdc"}, []string{`offload: undefined device symbol "nowhere(int)": referenced by calls.hip (//:calls_nobody_rdc); add a definition to srcs, or add the library that has one to device_deps`}},
		{"undefined symbol of a program", []string{"//:calls_nobody_link"}, []string{`offload: undefined device symbol "nowhere(int)": referenced by calls.hip (//:calls_nobody_library); add a definition to one of the libraries, or add the library that has one to deps`}},
		{"undefined symbol of fat objects", []string{"//:calls_nobody_fat"}, []string{`undefined device symbol "nowhere(int)": referenced by `, `calls.fat.o; add the library that defines it to deps`}},
		{"undefined symbol of OpenMP", []string{"//:calls_nobody_openmp"}, []string{`"nowhere(int)"`, "referenced by calls.cc (//:calls_nobody_openmp); add a definition to srcs", "for symbols that begin with __kmpc_, add LLVM's device runtime to device_linkopts"}},
		{"OpenMP without a device runtime", []string{"//:calls_no_runtime"}, []string{"offload: calls.cc (//:calls_no_runtime) for gfx942: this LLVM (/usr/lib/llvm-22) has no OpenMP device runtime, lib/amdgcn-amd-amdhsa/libompdevice.a: install "}},
		{"source for bundle", []string{"//:registered_source"}, []string{"offload: a.hip: found no device code, expected a bundle or a code object"}},
		{"library for bundle", []string{"//:archived_library"}, []string{"libhost_only.a: found an archive, expected a bundle or a bundled object"}},
		{"source as data", []string{"//:source_as_data"}, []string{"offload: a.hip: found no device code, expected a bundle or a code object"}},

		{"budget", []string{"//:over_budget"}, []string{"//:over_budget", "expected at most 1024, the size budget: compress the bundle, remove architectures, or raise the budget"}},
		{"wrong target", []string{"//:mislabeled_fat"}, []string{"entry hipv4-amdgcn-amd-amdhsa--gfx942: its image, ", "one/gfx1100.co, is code for gfx1100, not for gfx942: correct its target"}},
		{"no bundle", []string{"//:no_bundle"}, []string{"offload: device.h: no bundle entries: found text"}},
		{"not in archive", []string{"//:not_in_archive"}, []string{"libarchive.a: no entry serves hipv4-amdgcn-amd-amdhsa--gfx942; the archive has hipv4-amdgcn-amd-amdhsa--gfx1100, ", "; choose another target, or add --allow-missing (allow_missing = True in rules)"}},
		{"no archive", []string{"//:no_archive"}, []string{"offload: device.h: "}},
		{"conflict in archive", []string{"//:conflict_archive"}, []string{"gfx90a", "gfx90a:xnack+"}},
		{"not in binary", []string{"//:not_in_binary"}, []string{"binary.ofb: no image has triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip; there are "}},
		{"nothing in file", []string{"//:nothing_in_it"}, []string{"offload: device.h: no device images: found text"}},
		{"several in binary", []string{"//:several"}, []string{"twice.ofb: 2 images have triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=hip"}},
		{"binary for bundle", []string{"//:registered_binary"}, []string{"found an offload binary, expected a fat binary, which the runtime of hip loads"}},
		{"no object", []string{"//:embedded"}, []string{"text.o: ", "expected an ELF or COFF object"}},
		{"nothing to link", []string{"//:nothing_to_link"}, []string{"no device image in the inputs: nothing to link"}},

		{"no clang", []string{"--repo_env=OFFLOAD_LLVM=/nowhere", "//:kernels"}, []string{"//:kernels: no clang with the AMDGPU target and lld was found on this machine (/nowhere/bin/clang does not exist).", "--repo_env=OFFLOAD_LLVM=/path/to/llvm"}},
		{"no clang at path", use("no_clang"), []string{"//:kernels: no clang with the AMDGPU target and lld was found on this machine (/nowhere/bin/clang does not exist)."}},
		{"old clang", []string{"--repo_env=OFFLOAD_LLVM=" + filepath.Join(w.Dir, "old"), "//:kernels"}, []string{"//:kernels: no clang with the AMDGPU target and lld was found on this machine (" + filepath.Join(w.Dir, "old/bin/clang") + " is release 16, expected 17 or newer)."}},
		{"old clang in an archive", use("old_archive"), []string{"old.tar: found clang 16, expected 17 or newer: use an archive of a newer release"}},
		{"no OpenMP runtime", []string{"--repo_env=OFFLOAD_LLVM=/nowhere", setting + "openmp_runtime=@offload_system_clang//:openmp_runtime", "//:omp"}, []string{":openmp_runtime: the runtime of OpenMP offloading (libomptarget.so, libomp.so) was not found on this machine", "--@rules_offload//rules/settings:openmp_runtime=//my:runtime"}},
		{"no ROCm", use("no_rocm"), []string{"/nowhere is not a ROCm directory: it has no include/hip/hip_runtime.h. Correct rocm_path of offload.system_clang, or the variable ROCM_PATH"}},
		{"no HIP headers", []string{"--repo_env=ROCM_PATH=none", "//:includes_hip"}, []string{"the device toolchain has no ROCm: use offload.archive_rocm, or set the ROCm of this machine with --repo_env=ROCM_PATH=/path/to/rocm"}},
		{"file beside the source", []string{"//:includes_source"}, []string{"includes.hip:1: a.hip exists, but is not an input of the compilation: add it to hdrs of the target, or to textual_hdrs if it is not a header"}},
		{"no HIP runtime", []string{"--repo_env=ROCM_PATH=none", "//:no_hip_runtime"}, []string{"libamdhip64, HIP's runtime, which the linker did not find: use the ROCm of offload.archive_rocm or rocm_path, add its directory to linkopts (-L), or name a library with --@rules_offload//rules/settings:hip_runtime=//my:runtime"}},
		{"no OpenMP runtime by default", []string{"//:no_openmp_runtime"}, []string{"libomptarget, of the runtime of OpenMP offloading, which the linker did not find: ", "--@rules_offload//rules/settings:openmp_runtime=@offload_system_clang//:openmp_runtime"}},
		{"no such compiler", []string{setting + "device_compiler=nosuch", "//:kernels"}, []string{"//:kernels: --@rules_offload//rules/settings:device_compiler=nosuch: no registered device compiler"}},
		{"no checksum", use("no_checksum"), []string{"offload.archive_clang: file://", "clang.tar has no sha256. The downloaded file has the following one; check that it is the right file, and add to the tag:", `sha256 = "` + sum + `",`}},
		{"program without checksum", []string{"--extra_toolchains=@program_without_checksum//:all", "//:fat"}, []string{"offload.prebuilt: file://", "tools/offload has no sha256."}},
		{"wrong prefix", use("wrong_prefix"), []string{`clang.tar: bin/clang is missing in the archive: correct strip_prefix = "bin"`}},
		{"no lld", use("no_lld"), []string{`clang.tar: bin/ld.lld is missing in the archive: correct strip_prefix = ""`}},
		{"compression", []string{setting + "compress=gzip", "//:fat"}, []string{"//rules/settings:compress", "gzip", "zstd"}},
	} {
		result, err := w.Try(append([]string{"build"}, test.args...)...)
		if err == nil {
			t.Errorf("%s: the build succeeded", test.name)
		}
		for _, want := range test.want {
			if !strings.Contains(result.Output, want) {
				t.Errorf("%s: %q is not in\n%s", test.name, want, result.Output)
			}
		}
	}

	checkChoices(t, w)
	checkOwnRuntime(t, w)
	checkRepaired(t, w)
	testROCm(t, w, use)

	for _, test := range []struct{ tags, want string }{
		{
			"offload.system_clang(name = \"a\")\noffload.prebuilt(name = \"a\", urls = [\"file:///a\"])\n",
			`offload: two tags have the name "a": give each tag a different name`,
		},
		{
			"offload.system_clang(name = \"offload_native\")\n",
			`offload: the extension and a tag have the name "offload_native": give each tag a different name`,
		},
		{
			"offload.prebuilt(name = \"a\")\n",
			`offload.prebuilt: "a" has no urls, and these rules are a checkout, not a release: set urls and sha256`,
		},
	} {
		w.Module(test.tags)
		if result, err := w.Try("build", "//:kernels"); err == nil || !strings.Contains(result.Output, test.want) {
			t.Errorf("%s: %v\n%s", test.tags, err, result.Output)
		}
	}
}

// hipHeader declares what clang requires of HIP's headers for host code with kernels.
const hipHeader = `typedef struct dim3 { unsigned x, y, z; } dim3;
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void **);
`

// checkChoices builds targets with if_arch: for each architecture, by a pattern that skips them, and by their names.
func checkChoices(t *testing.T, w *bazeltest.Workspace) {
	t.Helper()
	w.Write("choices/BUILD.bazel", `load("@rules_offload//rules:defs.bzl", "hip_code_objects", "if_arch", "offload_bundle", "offload_per_arch", "requires_arch")
hip_code_objects(
    name = "chosen",
    srcs = if_arch({"cdna2": ["second.hip"]}, ["first.hip"]),
    target_compatible_with = requires_arch(),
)
offload_bundle(name = "without", images = [":chosen"])
offload_per_arch(name = "all", images = [":chosen"], offload_archs = ["gfx90a:xnack+", "gfx942"])
`)
	w.Write("choices/first.hip", "__attribute__((global)) void first() {}\n")
	w.Write("choices/second.hip", "__attribute__((global)) void second() {}\n")
	w.Bazel("build", "//choices/...")
	var compiled []string
	for _, command := range w.Commands(`mnemonic("OffloadHipCompile", deps(//choices:all))`) {
		var words []string
		for _, arg := range command.Arguments {
			if strings.HasPrefix(arg, "--offload-arch=") || strings.HasSuffix(arg, ".hip") {
				words = append(words, arg)
			}
		}
		compiled = append(compiled, strings.Join(words, " "))
	}
	slices.Sort(compiled)
	if want := []string{"--offload-arch=gfx90a:xnack+ choices/second.hip", "--offload-arch=gfx942 choices/first.hip"}; !slices.Equal(compiled, want) {
		t.Errorf("compiled %q, want %q", compiled, want)
	}
	for _, target := range []string{"//choices:chosen", "//choices:without"} {
		if result, err := w.Try("build", target); err == nil || !strings.Contains(result.Output, "rules/constraints:one_architecture_from_offload_per_arch") {
			t.Errorf("%s: %v\n%s", target, err, result.Output)
		}
	}
	for choices, want := range map[string]string{
		`{"gfx9o0": []}`:              `if_arch: "gfx9o0" is not a processor of LLVM: did you mean gfx900?`,
		`{"gfx90a:xnack+": []}`:       `if_arch: "gfx90a:xnack+" has features: name a processor, such as gfx90a`,
		`{"mi300": [], "gfx942": []}`: "if_arch: gfx942 is named twice",
	} {
		w.Write("wrong/BUILD.bazel", "load(\"@rules_offload//rules:defs.bzl\", \"if_arch\")\nfilegroup(name = \"wrong\", srcs = if_arch("+choices+"))\n")
		if result, err := w.Try("build", "//wrong"); err == nil || !strings.Contains(result.Output, want) {
			t.Errorf("%s: %v\n%s", choices, err, result.Output)
		}
	}
}

// checkOwnRuntime links programs with a runtime that only a flag of the user names.
func checkOwnRuntime(t *testing.T, w *bazeltest.Workspace) {
	t.Helper()
	w.Write("runtime/BUILD.bazel", `load("@rules_cc//cc:defs.bzl", "cc_binary")
cc_binary(name = "libamdhip64.so", srcs = ["runtime.c"], linkshared = True)
`)
	w.Write("runtime/runtime.c", "void *__hipRegisterFatBinary(void *p) { return p; }\nvoid __hipUnregisterFatBinary(void *p) {}\nvoid __hipRegisterFunction() {}\nint hipLaunchKernel() { return 0; }\nint __hipPopCallConfiguration() { return 0; }\n")
	w.Bazel("build", "//runtime:libamdhip64.so")
	folder := filepath.Join(strings.TrimSpace(w.Bazel("info", "bazel-bin").Stdout), "runtime")
	w.Bazel("build", "--repo_env=ROCM_PATH=none", "--linkopt=-L"+folder, "--sandbox_add_mount_pair="+folder, "//:no_hip_runtime")
}

// checkRepaired points to a missing LLVM, adds a broken clang, and then a working one: the Bazel
// server must notice each change.
func checkRepaired(t *testing.T, w *bazeltest.Workspace) {
	t.Helper()
	folder := filepath.Join(w.Dir, "later")
	build := []string{"build", "--nobuild", "--repo_env=OFFLOAD_LLVM=" + folder, "//:kernels"}
	if result, err := w.Try(build...); err == nil || !strings.Contains(result.Output, "/later/bin/clang does not exist") {
		t.Errorf("with a folder that is not there: %v\n%s", err, result.Output)
	}
	w.Write("later/bin/ld.lld", "")
	w.Write("later/bin/clang", "#!/bin/sh\necho 'clang: libLLVM.so.99: cannot open shared object file' >&2\nexit 127\n")
	clang := filepath.Join(folder, "bin", "clang")
	if err := os.Chmod(clang, 0o755); err != nil {
		t.Fatal(err)
	}
	if result, err := w.Try(build...); err == nil || !strings.Contains(result.Output, "/later/bin/clang does not work: clang: libLLVM.so.99: cannot open shared object file") {
		t.Errorf("with a clang that cannot start: %v\n%s", err, result.Output)
	}
	if err := os.Remove(clang); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(llvm.Tool(t, "clang"), clang); err != nil {
		t.Fatal(err)
	}
	w.Bazel(build...)
}

// oldClang is a compiler that is too old.
const oldClang = `#!/bin/sh
case $1 in
--print-targets) echo '    amdgcn - AMD GCN GPUs' ;;
-dumpversion) echo 16.0.6 ;;
esac
`

// testROCm checks that the device libraries are found in the layouts of TheRock and Debian, and
// that sources are compiled with them.
func testROCm(t *testing.T, w *bazeltest.Workspace, use func(string) []string) {
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	for name, folder := range map[string]string{"therock": "lib/llvm/amdgcn/bitcode", "debian": "lib/llvm-21/lib/clang/21/amdgcn/bitcode"} {
		w.Write(name+"/include/hip/hip_runtime.h", "")
		w.Write(filepath.Join(name, folder, "ockl.bc"), "")
		commands := w.Commands(`mnemonic("OffloadHipCompile", //:kernels)`, use(name)[:2]...)
		if len(commands) == 0 {
			t.Errorf("%s: no compilation", name)
			continue
		}
		const flag = "--rocm-path="
		i := slices.IndexFunc(commands[0].Arguments, func(argument string) bool { return strings.HasPrefix(argument, flag) })
		if i < 0 {
			t.Errorf("%s: no %s among %q", name, flag, commands[0].Arguments)
			continue
		}
		rocm := filepath.Join(base, strings.TrimPrefix(commands[0].Arguments[i], flag))
		want, err := filepath.EvalSymlinks(filepath.Join(w.Dir, name, folder))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := filepath.EvalSymlinks(filepath.Join(rocm, "amdgcn/bitcode")); err != nil || got != want {
			t.Errorf("%s: the device libraries are those of %s (%v), want %s", name, got, err, want)
		}
	}
}

// writeArchive makes an archive with empty files, and returns its SHA-256 in hex.
func writeArchive(t *testing.T, name string, contents ...string) string {
	t.Helper()
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for _, content := range contents {
		if err := archive.WriteHeader(&tar.Header{Name: content, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data.Bytes()))
}

// conflicting is a bundle with entries that must not be in one bundle.
func conflicting() string {
	ids := []string{"hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"}
	b := binary.LittleEndian.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), uint64(len(ids)))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, 4096)
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(id)))
		b = append(b, id...)
	}
	return string(append(b, make([]byte, 4096-len(b))...))
}
