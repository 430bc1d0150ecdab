#include <hip/hip_runtime.h>
#include "tile.h"
__global__ void gemm(float *x) { x[threadIdx.x] += 1.0f; }
