#include "device/device.h"

extern "C" __global__ void xorshift(unsigned *state, unsigned n) {
  unsigned i = item();
  if (i >= n) return;
  unsigned x = state[i];
  x ^= x << 13;
  x ^= x >> 17;
  state[i] = x ^ x << 5;
}
