__global__ void i(float *x) { x[threadIdx.x] += 1.0f; }
