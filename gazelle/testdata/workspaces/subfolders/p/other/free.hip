#include "p/include/p.h"
__global__ void free(float *x) { x[threadIdx.x] += 1.0f; }
