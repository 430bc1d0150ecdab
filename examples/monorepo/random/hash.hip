#include "device/device.h"

extern "C" __global__ void hash(unsigned *state, unsigned n) {
  unsigned i = item();
  if (i < n) state[i] = (state[i] ^ state[i] >> 16) * 0x45d9f3bu;
}
