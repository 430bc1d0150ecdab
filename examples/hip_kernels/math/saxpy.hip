#include "math/saxpy.h"

#include "math/madd.h"
#include <hip/hip_runtime.h>

__device__ float bias = 0;

__global__ void saxpy_kernel(float a, const float *x, float *y, int n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (unsigned)n) y[i] = madd(a, x[i], y[i]) + bias;
}

int saxpy(float a, const float *x, float *y, int n) {
  saxpy_kernel<<<(n + 255) / 256, 256>>>(a, x, y, n);
  return 0;
}
