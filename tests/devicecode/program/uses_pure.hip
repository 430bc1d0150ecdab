#include "hip.h"

__device__ int twice(int x);
__global__ void doubled(int *out) { *out = twice(*out); }
int run(int *out) {
  doubled<<<1, 1>>>(out);
  return 0;
}
