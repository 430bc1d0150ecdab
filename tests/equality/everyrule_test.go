package equality

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// everyRule is a workspace with every rule that has actions.
func everyRule() map[string]string {
	files := maps.Clone(bazeltest.Kernels())
	files["BUILD.bazel"] = `load(
    "@rules_offload//rules:defs.bzl",
    "cuda_ptx",
    "device_bitcode_library",
    "hip_code_objects",
    "hip_device_link",
    "hip_library",
    "offload_archive",
    "offload_binary",
    "offload_bundle",
    "offload_cc_data",
    "offload_compiler_diff",
    "offload_embed",
    "offload_extract",
    "offload_images",
    "offload_kpack",
    "offload_link",
    "offload_package_test",
    "offload_per_arch",
    "offload_prune",
    "offload_register",
    "offload_report",
    "offload_unbundle",
    "offload_wheel",
    "openmp_library",
)

hip_code_objects(
    name = "kernels",
    srcs = ["fill.hip", "scale.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"],
)

device_bitcode_library(
    name = "bitcode",
    srcs = ["add.c", "twice.ll"],
    offload_archs = ["gfx1100"],
)

hip_code_objects(
    name = "with_bitcode",
    srcs = ["fill.hip"],
    hdrs = ["device.h"],
    device_deps = [":bitcode"],
    offload_archs = ["gfx1100"],
)

hip_code_objects(
    name = "assembly",
    srcs = ["nothing.s", "twice.ll"],
    offload_archs = ["gfx1100"],
)

hip_code_objects(
    name = "rdc",
    srcs = ["scale.hip"],
    hdrs = ["device.h"],
    arch_copts = {"gfx1100": ["-g"]},
    offload_archs = ["gfx1100"],
    rdc = True,
    split_debug_info = True,
)

hip_code_objects(
    name = "split_kernels",
    srcs = ["fill.hip"],
    hdrs = ["device.h"],
    tags = ["manual"],
)

hip_code_objects(
    name = "portable",
    srcs = ["scale.hip"],
    hdrs = ["device.h"],
    arch_linkopts = {"amdgcnspirv": ["-use-spirv-backend"]},
    offload_archs = ["amdgcnspirv"],
)

cuda_ptx(
    name = "ptx",
    srcs = ["ptx.cu"],
    offload_archs = ["sm_70"],
)

offload_per_arch(
    name = "split",
    images = [":split_kernels"],
    offload_archs = ["gfx906", "gfx942"],
)

offload_images(
    name = "images",
    srcs = {":rdc": "gfx1100"},
)

hip_library(
    name = "library",
    srcs = ["launch.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx1100"],
)

# Device code that is linked once for all libraries.
hip_library(
    name = "unlinked",
    srcs = ["launch.hip"],
    hdrs = ["device.h"],
    device_link = False,
    offload_archs = ["gfx1100"],
    rdc = True,
)

hip_device_link(
    name = "program_code",
    deps = [":unlinked"],
)

offload_bundle(
    name = "fat",
    images = [":kernels"],
    compress = "none",
    max_size = "1MiB",
)

offload_bundle(
    name = "compressed",
    images = [":split"],
    compress = "zstd",
)

# Of two families of processors, each of which is a part.
offload_bundle(
    name = "in_parts",
    images = [":kernels"],
    compress = "zstd",
)

offload_unbundle(
    name = "single",
    bundle = ":fat",
    targets = ["gfx90a:xnack-", "gfx1100"],
)

offload_unbundle(
    name = "decompressed",
    bundle = ":compressed",
    targets = ["gfx942"],
)

offload_binary(
    name = "packed",
    images = [":images"],
)

offload_extract(
    name = "extracted",
    src = ":packed",
    targets = ["gfx1100"],
)

offload_cc_data(
    name = "data",
    src = ":fat",
)

offload_archive(
    name = "archive",
    bundles = [":fat", ":compressed"],
)

offload_unbundle(
    name = "device_archive",
    bundle = ":archive",
    targets = ["gfx90a:xnack-", "gfx942"],
    type = "a",
)

offload_register(
    name = "register",
    bundle = ":fat",
)

# A library with device code, and what takes it out again.
genrule(
    name = "shared_library",
    srcs = [":register"],
    outs = ["libshared.so"],
    cmd = "$(CC) -shared -nostdlib -o $@ $(locations :register)",
    toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
)

offload_prune(
    name = "pruned",
    src = ":shared_library",
    offload_archs = ["gfx1100"],
)

offload_kpack(
    name = "kpack",
    src = ":shared_library",
    offload_archs = ["gfx90a:xnack-", "gfx1100"],
)

genrule(
    name = "wheel_file",
    srcs = [":shared_library", "wheel.py"],
    outs = ["demo-1.0-py3-none-any.whl"],
    cmd = "python3 $(location wheel.py) $(location :shared_library) $@",
)

offload_wheel(
    name = "wheels",
    src = ":wheel_file",
    families = {"cdna": ["gfx90a", "gfx942"]},
)

offload_package_test(
    name = "wheel_test",
    srcs = [":wheel_file"],
)

hip_code_objects(
    name = "compared",
    srcs = ["fill.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx1100"],
)

offload_compiler_diff(
    name = "upgrade",
    new_copts = ["-O1"],
    remarks = False,
    srcs = [":compared"],
)

# Fat objects as clang makes them: device code, not linked yet, in an object of the host.
hip_code_objects(
    name = "device_objects",
    srcs = ["fill.hip"],
    hdrs = ["device.h"],
    device_linkopts = ["-r"],
    offload_archs = ["gfx90a", "gfx1100"],
)

offload_binary(
    name = "packed_objects",
    images = [":device_objects"],
)

genrule(
    name = "host_object",
    outs = ["host.o"],
    cmd = "echo 'int host(void) { return 1; }' | $(CC) -x c -fPIC -c -o $@ -",
    toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
)

offload_embed(
    name = "embedded",
    images = [":packed_objects"],
    src = ":host_object",
)

offload_link(
    name = "linked",
    deps = [":embedded"],
)

# Target regions in a header, in functions of one name, and for two targets. The device runtime
# of LLVM would define what is left open here.
openmp_library(
    name = "openmp",
    srcs = ["region.c", "sum.cc"],
    hdrs = ["region.h"],
    device_linkopts = ["-Wl,--unresolved-symbols=ignore-all"],
    offload_archs = ["gfx90a", "x86_64-pc-linux-gnu"],
)

openmp_library(
    name = "relocatable",
    srcs = ["region.c"],
    hdrs = ["region.h"],
    offload_archs = ["x86_64-pc-linux-gnu"],
    relocatable = True,
)

offload_report(
    name = "report",
    srcs = [":library", ":register", ":openmp"],
)

# Not an action of these rules, and one that Bazel maps no paths of.
genrule(
    name = "plain",
    outs = ["plain.txt"],
    cmd = "echo plain > $@",
)
`
	files["ptx.cu"] = `extern "C" __attribute__((global)) void fill(int *p, int v) { p[__nvvm_read_ptx_sreg_tid_x()] = v; }
`
	files["launch.hip"] = `#include "device.h"
struct dim3 {
  unsigned x, y = 1, z = 1;
  dim3(unsigned x) : x(x) {}
};
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = 0);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
__global__ void twice(int *data, unsigned n) {
  if (item() < n) data[item()] *= 2;
}
void launch(int *data, unsigned n) { twice<<<(n + 255) / 256, 256>>>(data, n); }
`
	files["wheel.py"] = `import base64, hashlib, sys, zipfile
info = "demo-1.0.dist-info/"
files = {
    "demo/libshared.so": open(sys.argv[1], "rb").read(),
    info + "METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    info + "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
}
record = [(name, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data)) for name, data in files.items()]
files[info + "RECORD"] = "".join("%s,%s,%s\n" % row for row in record + [(info + "RECORD", "", "")]).encode()
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as wheel:
    for name, data in files.items():
        wheel.writestr(zipfile.ZipInfo(name), data)
`
	files["add.c"] = "int add(int a, int b) { return a + b; }\n"
	files["twice.ll"] = `define i32 @twice(i32 %x) {
  %y = shl i32 %x, 1
  ret i32 %y
}
`
	files["nothing.s"] = `	.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
	.text
	.globl nothing
	.p2align 8
	.type nothing,@function
nothing:
	s_endpgm
`
	files["region.h"] = `static int scaled(int x) {
#pragma omp target map(tofrom : x)
  x *= 3;
  return x;
}
`
	files["region.c"] = `#include "region.h"
static int local(int x) {
#pragma omp target map(tofrom : x)
  x += 1;
  return x;
}
int region(int x) { return scaled(local(x)); }
`
	files["sum.cc"] = `#include "region.h"
static int local(int x) {
#pragma omp target map(tofrom : x)
  x += 2;
  return x;
}
int sum(int x) {
  int all = 0;
#pragma omp target teams distribute parallel for map(tofrom : all) reduction(+ : all)
  for (int i = 0; i < x; i++) all += i;
  return scaled(local(all));
}
`
	return files
}

// actions are the numbers of actions in everyRule, by mnemonic.
var actions = map[string]int{
	"CppArchive":                5,
	"Genrule":                   4,
	"OffloadArchive":            1,
	"OffloadBitcodeCompile":     2,
	"OffloadBitcodeMerge":       1,
	"OffloadBundle":             5,
	"OffloadCcData":             1,
	"OffloadCcHeader":           1,
	"OffloadCheck":              5,
	"OffloadCodeCompile":        2,
	"OffloadCompilerDiff":       1,
	"OffloadCompressPart":       2,
	"OffloadCompressPlan":       1,
	"OffloadCudaCompile":        1,
	"OffloadDeviceLink":         3 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 2 + 2 + 1 + 2,
	"OffloadEmbed":              1,
	"OffloadExtract":            1,
	"OffloadHipCompile":         2*3 + 1 + 1 + 2 + 1 + 1 + 2 + 2,
	"OffloadHipHostCompile":     2,
	"OffloadHipPortableCompile": 1,
	"OffloadKpack":              1,
	"OffloadLink":               1,
	"OffloadMerge":              1,
	"OffloadOpenMpCompile":      2*2 + 1,
	"OffloadOpenMpHostCompile":  2 + 1,
	"OffloadOpenMpHostObject":   2 + 1,
	"OffloadOpenMpIncludes":     2 + 1,
	"OffloadPack":               2 + 2 + 1,
	"OffloadPrune":              1,
	"OffloadRegister":           3 + 2,
	"OffloadReport":             1,
	"OffloadRequire":            1,
	"OffloadSplitDebug":         1,
	"OffloadUnbundle":           2,
	"OffloadUnbundleArchive":    1,
	"OffloadWheel":              1,
}

// ofClang is the beginning of the mnemonics of actions that run clang. The other actions run this
// project's program, in a worker if Bazel allows it.
const ofClang = "Offload(Bitcode|Code|Hip|Cuda|OpenMp|DeviceLink|Merge|Link)"

// mapsPaths reports whether Bazel maps the paths of a mnemonic on request. Portable code contains
// the command line of its compilation, and a comparison reads two files that differ only in the
// configuration.
func mapsPaths(mnemonic string) bool {
	return strings.HasPrefix(mnemonic, "Offload") && mnemonic != "OffloadHipPortableCompile" && mnemonic != "OffloadCompilerDiff"
}

var clang = regexp.MustCompile("^" + ofClang)

// ofProgram reports whether a worker can run the actions of a mnemonic.
func ofProgram(mnemonic string) bool {
	return strings.HasPrefix(mnemonic, "Offload") && !clang.MatchString(mnemonic)
}

// noRule matches exported names that have no actions of their own: selects, an aspect, and the
// macros for programs, which consist of a hip_library and a C++ rule.
var noRule = regexp.MustCompile("_aspect$|^(if|requires)_|^hip_(binary|test)$")

// TestEveryRuleIsThere checks that everyRule has each rule of defs.bzl.
func TestEveryRuleIsThere(t *testing.T) {
	defs, err := os.ReadFile(filepath.Join(bazeltest.Sources(t), "rules", "defs.bzl"))
	if err != nil {
		t.Fatal(err)
	}
	build := everyRule()["BUILD.bazel"]
	for _, match := range regexp.MustCompile(`(?m)^(\w+) = _`).FindAllStringSubmatch(string(defs), -1) {
		if name := match[1]; !noRule.MatchString(name) && !strings.Contains(build, "\n"+name+"(\n") {
			t.Errorf("the workspace has no %s", name)
		}
	}
}
