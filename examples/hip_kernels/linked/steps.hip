#include "linked/steps.h"

#include "linked/counter.h"

__global__ void step_kernel(int *out) { out[global_id()] = next(); }

int step(int *out) {
  step_kernel<<<1, 64>>>(out);
  return 0;
}
