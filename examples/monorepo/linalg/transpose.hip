#include "device/device.h"

extern "C" __global__ void transpose(const float *from, float *to, unsigned rows, unsigned columns) {
  unsigned i = item();
  if (i < rows * columns) to[i % columns * rows + i / columns] = from[i];
}
