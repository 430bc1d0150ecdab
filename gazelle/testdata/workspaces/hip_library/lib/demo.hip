#include "gemm.h"
#include "demo.h"
__global__ void d(float *x) { x[threadIdx.x] += 1.0f; }
void run_d(float *x) { d<<<1, 64>>>(x); }
int main() {}
