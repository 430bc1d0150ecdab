#include "gemm.h"
__global__ void t(float *x) { x[threadIdx.x] += 1.0f; }
void run_t(float *x) { t<<<1, 64>>>(x); }
int main() {}
