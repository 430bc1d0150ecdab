__global__ void test_scan(float *x) { x[threadIdx.x] += 1.0f; }
