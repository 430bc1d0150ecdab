// The few words of HIP that these kernels use, from clang's builtins alone, so
// that they compile without a ROCm installation.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

namespace device {

__device__ inline unsigned thread_x() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline unsigned thread_y() { return __builtin_amdgcn_workitem_id_y(); }
__device__ inline unsigned block_x() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline unsigned block_y() { return __builtin_amdgcn_workgroup_id_y(); }

// Waits until every work item of the group has come here and its writes to
// shared memory can be seen.
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The value of `x` in the lane whose number differs by `mask`.
__device__ inline int lane_xor(int x, int mask) {
  int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  return __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, x);
}
__device__ inline float lane_xor(float x, int mask) {
  return __builtin_bit_cast(float, lane_xor(__builtin_bit_cast(int, x), mask));
}

} // namespace device
