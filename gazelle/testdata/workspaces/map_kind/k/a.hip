__global__ void a(float *x) { x[threadIdx.x] += 1.0f; }
