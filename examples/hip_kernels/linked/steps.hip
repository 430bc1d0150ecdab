#include "linked/steps.h"

#include "linked/counter.h"

__global__ void step_kernel(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = next(); }

int step(int *out) {
  step_kernel<<<1, 64>>>(out);
  return 0;
}
