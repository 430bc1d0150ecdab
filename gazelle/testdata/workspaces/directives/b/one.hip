__global__ void one(float *x) { x[threadIdx.x] += 1.0f; }
