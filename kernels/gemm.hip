// C = alpha * A * B + beta * C for row-major matrices, tile by tile through
// shared memory; each work item computes a small block in registers.
#include "kernels/device.h"

namespace {

template <typename T, int Tile, int PerItem>
__device__ void gemm(const T *a, const T *b, T *c, int m, int n, int k, T alpha, T beta) {
  __shared__ T tile_a[Tile][Tile + 1];
  __shared__ T tile_b[Tile][Tile + 1];
  constexpr int kItems = Tile / PerItem;
  const int tx = device::thread_x(), ty = device::thread_y();
  const int row0 = device::block_y() * Tile, col0 = device::block_x() * Tile;

  T sum[PerItem][PerItem] = {};
  for (int step = 0; step < k; step += Tile) {
    for (int i = ty; i < Tile; i += kItems)
      for (int j = tx; j < Tile; j += kItems) {
        tile_a[i][j] = row0 + i < m && step + j < k ? a[(row0 + i) * k + step + j] : T(0);
        tile_b[i][j] = step + i < k && col0 + j < n ? b[(step + i) * n + col0 + j] : T(0);
      }
    device::barrier();
#pragma unroll 8
    for (int p = 0; p < Tile; ++p)
      for (int i = 0; i < PerItem; ++i)
        for (int j = 0; j < PerItem; ++j)
          sum[i][j] += tile_a[ty * PerItem + i][p] * tile_b[p][tx * PerItem + j];
    device::barrier();
  }

  for (int i = 0; i < PerItem; ++i)
    for (int j = 0; j < PerItem; ++j) {
      const int row = row0 + ty * PerItem + i, col = col0 + tx * PerItem + j;
      if (row < m && col < n)
        c[row * n + col] = alpha * sum[i][j] + beta * c[row * n + col];
    }
}

} // namespace

extern "C" {

__global__ __launch_bounds__(256) void gemm_f32(const float *a, const float *b, float *c, int m,
                                                int n, int k, float alpha, float beta) {
  gemm<float, 64, 4>(a, b, c, m, n, k, alpha, beta);
}

__global__ __launch_bounds__(256) void gemm_f64(const double *a, const double *b, double *c, int m,
                                                int n, int k, double alpha, double beta) {
  gemm<double, 32, 2>(a, b, c, m, n, k, alpha, beta);
}

__global__ __launch_bounds__(256) void gemm_i32(const int *a, const int *b, int *c, int m, int n,
                                                int k, int alpha, int beta) {
  gemm<int, 32, 2>(a, b, c, m, n, k, alpha, beta);
}
}
