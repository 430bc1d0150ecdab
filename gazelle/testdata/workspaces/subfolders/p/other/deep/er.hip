__global__ void er(float *x) { x[threadIdx.x] += 1.0f; }
