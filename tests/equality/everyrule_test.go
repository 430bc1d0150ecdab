package equality

import (
	"maps"
	"strings"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
)

// everyRule is a workspace with every rule that has actions.
func everyRule() map[string]string {
	files := maps.Clone(bazeltest.Kernels())
	files["BUILD.bazel"] = `load(
    "@rules_offload//rules:defs.bzl",
    "cuda_ptx",
    "hip_code_objects",
    "hip_library",
    "offload_archive",
    "offload_binary",
    "offload_bundle",
    "offload_extract",
    "offload_images",
    "offload_per_arch",
    "offload_register",
    "offload_report",
    "offload_unbundle",
    "offload_unbundle_archive",
)

hip_code_objects(
    name = "kernels",
    srcs = ["fill.hip", "scale.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"],
)

hip_code_objects(
    name = "rdc",
    srcs = ["scale.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx1100"],
    rdc = True,
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

offload_archive(
    name = "archive",
    bundles = [":fat", ":compressed"],
)

offload_unbundle_archive(
    name = "device_archive",
    archive = ":archive",
    targets = ["gfx90a:xnack-", "gfx942"],
)

offload_register(
    name = "register",
    bundle = ":fat",
)

offload_report(
    name = "report",
    targets = [":library", ":register"],
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
	return files
}

// actions are the numbers of actions of everyRule.
var actions = map[string]int{
	"Genrule":                   1,
	"OffloadArchive":            1,
	"OffloadBundle":             3,
	"OffloadCheck":              3,
	"OffloadCudaCompile":        1,
	"OffloadDeviceLink":         3 + 1 + 2 + 1 + 1 + 1,
	"OffloadExtract":            1,
	"OffloadHipCompile":         2*3 + 1 + 2 + 1,
	"OffloadHipHostCompile":     1,
	"OffloadHipPortableCompile": 1,
	"OffloadIsolate":            1,
	"OffloadPack":               1,
	"OffloadRegister":           2,
	"OffloadUnbundle":           2,
	"OffloadUnbundleArchive":    1,
}

// ofClang tells whether a mnemonic is one of the actions that run clang and not
// this project's program.
func ofClang(mnemonic string) bool {
	return strings.HasPrefix(mnemonic, "OffloadHip") || mnemonic == "OffloadCudaCompile" || mnemonic == "OffloadDeviceLink"
}

// mapsPaths tells whether Bazel maps paths of a mnemonic where it is asked to.
// Portable code holds the command line that it was compiled with.
func mapsPaths(mnemonic string) bool {
	return mnemonic != "Genrule" && mnemonic != "OffloadHipPortableCompile"
}

// ofProgram tells whether a mnemonic is one of the actions that run this
// project's program.
func ofProgram(mnemonic string) bool {
	return strings.HasPrefix(mnemonic, "Offload") && !ofClang(mnemonic)
}
