#include "device/device.h"

extern "C" __global__ void gain(float *samples, float factor, unsigned n) {
  if (item() < n) samples[item()] *= factor;
}
