#include "portable/device.h"

extern "C" __global__ void scale(float *x, float by, int n) {
  int i = thread_index();
  if (i < n) x[i] = scaled(x[i], by);
}
