__global__ void x(float *x) { x[threadIdx.x] += 1.0f; }
