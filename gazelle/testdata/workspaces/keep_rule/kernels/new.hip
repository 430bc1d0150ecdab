__global__ void fresh(float *x) { x[threadIdx.x] += 1.0f; }
