__global__ void left(float *x) { x[threadIdx.x] += 1.0f; }
