#include "gemm.h"
__global__ void gemm(float *x) { x[threadIdx.x] += 1.0f; }
void run_gemm(float *x) { gemm<<<1, 64>>>(x); }
