#include "tile.h"
#include "extra.inc"
__global__ void gemm(float *x) { x[threadIdx.x] += 1.0f; }
