#include <hip/hip_runtime.h>

__global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void block_sum(const float *x, float *sums, int n) {
  __shared__ float part[256];
  int me = threadIdx.x, i = blockIdx.x * blockDim.x + me;
  part[me] = i < n ? x[i] : 0;
  for (int half = 128; half > 0; half /= 2) {
    __builtin_amdgcn_s_barrier();
    if (me < half) part[me] += part[me + half];
  }
  if (me == 0) sums[blockIdx.x] = part[0];
}

// Each thread computes TILE times TILE elements in registers.
#ifndef TILE
#define TILE 8
#endif
__global__ void gemm(const float *a, const float *b, float *c, int n) {
  int row = blockIdx.x * TILE, column = (blockIdx.x + threadIdx.x) * TILE;
  float sum[TILE][TILE] = {};
  for (int k = 0; k < n; k++) {
#pragma unroll
    for (int i = 0; i < TILE; i++) {
#pragma unroll
      for (int j = 0; j < TILE; j++) sum[i][j] += a[(row + i) * n + k] * b[k * n + column + j];
    }
  }
#pragma unroll
  for (int i = 0; i < TILE; i++) {
#pragma unroll
    for (int j = 0; j < TILE; j++) c[(row + i) * n + column + j] = sum[i][j];
  }
}
