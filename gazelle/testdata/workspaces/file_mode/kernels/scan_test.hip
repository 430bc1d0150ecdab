__global__ void scan_test(float *x) { x[threadIdx.x] += 1.0f; }
