#include "device/device.h"

extern "C" __global__ void invert(unsigned char *pixels, unsigned n) {
  if (item() < n) pixels[item()] = 255 - pixels[item()];
}
