__global__ void q(float *x) { x[threadIdx.x] += 1.0f; }
