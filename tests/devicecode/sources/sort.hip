// Registers under pressure: a network that sorts 64 values of each work item, and a tile of a matrix product.
#include "device.h"

template <int N> __device__ void sort(float (&v)[N]) {
#pragma unroll
  for (int size = 2; size <= N; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int i = 0; i < N; i++) {
        int j = i ^ stride;
        if (j > i) {
          bool up = (i & size) == 0;
          float a = v[i], b = v[j];
          v[i] = (a < b) == up ? a : b;
          v[j] = (a < b) == up ? b : a;
        }
      }
    }
  }
}

extern "C" __global__ void sort_64(float *data) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; i++) v[i] = data[item() * 64 + i];
  sort(v);
#pragma unroll
  for (int i = 0; i < 64; i++) data[item() * 64 + i] = v[i];
}

extern "C" __global__ void tile_8x8(const float *a, const float *b, float *c, int n) {
  float sum[8][8] = {};
  for (int k = 0; k < n; k++) {
    float x[8], y[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = a[(item() * 8 + i) * n + k], y[i] = b[k * n + i];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) sum[i][j] += x[i] * y[j];
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) c[(item() * 8 + i) * n + j] = sum[i][j];
}
