#include "device/device.h"

extern "C" __global__ void gemv(const float *a, const float *x, float *y, unsigned rows, unsigned columns) {
  unsigned row = item();
  if (row >= rows) return;
  float sum = 0;
  for (unsigned i = 0; i < columns; i++) sum += a[row * columns + i] * x[i];
  y[row] = sum;
}
