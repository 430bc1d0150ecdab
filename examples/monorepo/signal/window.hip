#include "device/device.h"

extern "C" __global__ void window(float *samples, unsigned n) {
  unsigned i = item();
  if (i < n) samples[i] *= 1 - __builtin_fabsf(2.0f * i / n - 1);
}
