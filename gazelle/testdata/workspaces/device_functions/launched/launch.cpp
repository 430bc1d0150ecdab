__device__ int twice(int);
__global__ void k(int *x) { *x = twice(*x); }
void launch(int *x) { k<<<1, 1>>>(x); }
