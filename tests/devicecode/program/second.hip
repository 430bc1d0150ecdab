// See first.hip.
#include "hip.h"

namespace {
__constant__ int factor;
__global__ void kernel(int *out) { *out += factor; }
}  // namespace

int second(int *out) {
  int three = 4;
  kernel<<<1, 1>>>(out);
  return hipMemcpyToSymbol(&factor, &three, sizeof three, 0, 1);
}
