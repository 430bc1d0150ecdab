// What the programs use of HIP.
#pragma once

typedef decltype(sizeof(0)) size_t;

#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef struct Stream *hipStream_t;

extern "C" {
int hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream);
int hipMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind);
int __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = 0);
int __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
}
