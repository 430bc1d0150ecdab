#include "gemm.h"
__global__ void more(float *x) { x[threadIdx.x] += 1.0f; }
