#include "linked/counter.h"

__device__ int count;

__device__ int next() { return __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }

__global__ void reset_kernel() { count = 0; }

int reset() {
  reset_kernel<<<1, 1>>>();
  return 0;
}
