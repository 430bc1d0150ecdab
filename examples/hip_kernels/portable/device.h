// What these kernels need of HIP or CUDA, without the headers of either.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

__device__ static inline unsigned thread_index() {
#ifdef __NVPTX__
  return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
#else
  return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
#endif
}

// Device code of another source.
__device__ float scaled(float x, float by);
