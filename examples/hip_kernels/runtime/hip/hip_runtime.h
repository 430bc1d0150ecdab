// What these programs use of HIP, for machines without ROCm.
#pragma once

#include <stddef.h>

#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef enum hipError_t { hipSuccess = 0 } hipError_t;
typedef struct ihipStream_t *hipStream_t;

extern "C" {
hipError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream);
hipError_t hipMalloc(void **memory, size_t size);
hipError_t hipFree(void *memory);
hipError_t hipDeviceSynchronize(void);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = 0);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
}

template <typename T>
static inline hipError_t hipMalloc(T **memory, size_t size) {
  return hipMalloc((void **)memory, size);
}

struct __hip_thread_index {
  __device__ static unsigned get_x() { return __builtin_amdgcn_workitem_id_x(); }
  __declspec(property(get = get_x)) unsigned x;
};
struct __hip_block_index {
  __device__ static unsigned get_x() { return __builtin_amdgcn_workgroup_id_x(); }
  __declspec(property(get = get_x)) unsigned x;
};
struct __hip_block_size {
  __device__ static unsigned get_x() { return __builtin_amdgcn_workgroup_size_x(); }
  __declspec(property(get = get_x)) unsigned x;
};

extern const __device__ __attribute__((weak)) __hip_thread_index threadIdx;
extern const __device__ __attribute__((weak)) __hip_block_index blockIdx;
extern const __device__ __attribute__((weak)) __hip_block_size blockDim;
