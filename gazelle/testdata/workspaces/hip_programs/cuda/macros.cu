#define cudaMalloc hipMalloc
__global__ void m(int *p) { *p = 1; }
