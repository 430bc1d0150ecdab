// Two sources with a kernel and a variable of the same name, each its own.
#include "hip.h"

namespace {
__constant__ int factor;
__global__ void kernel(int *out) { *out *= factor; }
}  // namespace

int first(int *out) {
  int three = 3;
  kernel<<<1, 1>>>(out);
  return hipMemcpyToSymbol(&factor, &three, sizeof three, 0, 1);
}
