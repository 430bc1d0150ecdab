// Constant tables, and variables that the host can set.
#include "device.h"

__device__ static const unsigned crc_table[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
__constant__ float taps[9];
__device__ unsigned calls;

extern "C" __global__ void crc(const unsigned char *in, unsigned *out, int n) {
  unsigned value = ~0u;
  for (int i = 0; i < n; i++) {
    value ^= in[item() * n + i];
    value = crc_table[value & 15] ^ (value >> 4);
    value = crc_table[value & 15] ^ (value >> 4);
  }
  out[item()] = ~value;
  calls++;
}

extern "C" __global__ void convolve(const float *in, float *out) {
  float sum = 0;
  for (int i = 0; i < 9; i++) sum += taps[i] * in[item() + i];
  out[item()] = sum;
}
