__global__ void f(float *x) { x[threadIdx.x] += 1.0f; }
