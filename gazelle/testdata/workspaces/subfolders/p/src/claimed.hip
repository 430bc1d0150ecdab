#include "p/include/p.h"
#include "../include/q.h"
__global__ void claimed(float *x) { x[threadIdx.x] += 1.0f; }
