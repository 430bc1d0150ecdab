#include "lib/gemm.h"
__global__ void u(float *x) { x[threadIdx.x] += 1.0f; }
void run_u(float *x) { u<<<1, 64>>>(x); }
