#include "hip.h"

__constant__ float factor = 3;
__device__ int counter;
__managed__ int total;

__global__ void scale(float *p) {
  p[__builtin_amdgcn_workitem_id_x()] *= factor;
  counter++;
}

template <int N> __global__ void fill(int *p) {
  p[__builtin_amdgcn_workitem_id_x()] = N;
  total++;
}

int main() {
  scale<<<dim3(2), dim3(64)>>>(0);
  fill<5><<<dim3(1, 3), dim3(32)>>>(0);
  return 0;
}
