// Shared memory: of a fixed size, of the size that the launch says, and a transposition with padding.
#include "device.h"

extern "C" __global__ void reduce(const float *in, float *out) {
  __shared__ float part[256];
  part[local_id()] = in[item()];
  barrier();
  for (unsigned n = 128; n > 0; n /= 2) {
    if (local_id() < n) part[local_id()] += part[local_id() + n];
    barrier();
  }
  if (local_id() == 0) out[item() / 256] = part[0];
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, unsigned bins) {
  extern __shared__ unsigned counts[];
  for (unsigned i = local_id(); i < bins; i += 256) counts[i] = 0;
  barrier();
  __atomic_fetch_add(&counts[in[item()] % bins], 1u, __ATOMIC_RELAXED);
  barrier();
  for (unsigned i = local_id(); i < bins; i += 256) __atomic_fetch_add(&out[i], counts[i], __ATOMIC_RELAXED);
}

extern "C" __global__ void transpose(const double *in, double *out, unsigned n) {
  __shared__ double tile[16][17];
  unsigned x = local_id() % 16, y = local_id() / 16;
  tile[y][x] = in[y * n + x];
  barrier();
  out[y * n + x] = tile[x][y];
}
