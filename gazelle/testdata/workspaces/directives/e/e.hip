__global__ void e(float *x) { x[threadIdx.x] += 1.0f; }
