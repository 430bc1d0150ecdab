// A variable and a function that other sources use.
#include "hip.h"

__device__ int count;
__device__ int next() { return __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }
__global__ void reset_kernel() { count = 0; }

int reset(int to) {
  reset_kernel<<<1, 1>>>();
  return hipMemcpyToSymbol(&count, &to, sizeof to, 0, 1);
}
