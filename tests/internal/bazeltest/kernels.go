package bazeltest

// Kernels is a small HIP project: two sources and three targets, which bundle the kernels and
// extract them.
func Kernels() map[string]string {
	return map[string]string{
		"BUILD.bazel": `load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_bundle", "offload_unbundle")

hip_code_objects(
    name = "kernels",
    srcs = ["fill.hip", "scale.hip"],
    hdrs = ["device.h"],
    offload_archs = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"],
)

offload_bundle(
    name = "fat",
    images = [":kernels"],
)

offload_unbundle(
    name = "single",
    bundle = ":fat",
    targets = ["gfx90a:xnack-", "gfx1100"],
)
`,
		"device.h": `#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
__device__ inline unsigned item() {
  return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
}
`,
		"fill.hip": `#include "device.h"
extern "C" __global__ void fill(float *out, float value, unsigned n) {
  if (item() < n) out[item()] = value;
}
`,
		"scale.hip": `#include "device.h"
template <typename T> __device__ void scale(T *data, T factor, unsigned n) {
  if (item() < n) data[item()] *= factor;
}
extern "C" __global__ void scale_f32(float *data, float factor, unsigned n) { scale(data, factor, n); }
extern "C" __global__ void scale_i32(int *data, int factor, unsigned n) { scale(data, factor, n); }
`,
	}
}
