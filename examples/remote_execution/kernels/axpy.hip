#include "kernels/device.h"

// y = a * x + y
extern "C" __global__ void axpy(float a, const float *x, float *y, unsigned n) {
  unsigned i = item();
  if (i < n) y[i] += a * x[i];
}
