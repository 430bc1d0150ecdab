#include "device/device.h"

extern "C" __global__ void axpy(float a, const float *x, float *y, unsigned n) {
  if (item() < n) y[item()] += a * x[item()];
}
