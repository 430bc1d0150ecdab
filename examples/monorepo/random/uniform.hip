#include "device/device.h"

extern "C" __global__ void uniform(const unsigned *state, float *out, unsigned n) {
  if (item() < n) out[item()] = state[item()] * (1.0f / 4294967296.0f);
}
