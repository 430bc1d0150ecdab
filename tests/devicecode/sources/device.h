// HIP without ROCm: the words, and where a work item is.
#pragma once

#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __noinline__ __attribute__((noinline))
#define __shared__ __attribute__((shared))

// What host code of kernels calls.
struct dim3 {
  unsigned x, y, z;
};
extern "C" int hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, decltype(sizeof(0)) shared, struct Stream *stream);

#if defined(__HIP_DEVICE_COMPILE__)
__device__ inline unsigned local_id() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline unsigned item() { return __builtin_amdgcn_workgroup_id_x() * 256 + local_id(); }
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
__device__ unsigned local_id();
__device__ unsigned item();
__device__ void barrier();
#endif
