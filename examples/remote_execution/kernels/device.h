// What these kernels need of HIP, so that they compile without ROCm. With ROCm:
// #include <hip/hip_runtime.h>.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

__device__ inline unsigned item() {
  return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}
