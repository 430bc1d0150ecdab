#include "orphan/orphan.h"
#include "nopkg/nopkg.h"
__global__ void user(float *x) { x[threadIdx.x] += 1.0f; }
