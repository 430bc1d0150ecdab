#include "device/device.h"

extern "C" __global__ void threshold(const float *from, unsigned char *to, float limit, unsigned n) {
  if (item() < n) to[item()] = from[item()] > limit ? 255 : 0;
}
