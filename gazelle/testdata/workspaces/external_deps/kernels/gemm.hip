#include "lib/lib.h"
__global__ void gemm(float *x) { x[threadIdx.x] += 1.0f; }
