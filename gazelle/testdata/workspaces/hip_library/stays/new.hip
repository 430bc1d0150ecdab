__global__ void n(float *x) { x[threadIdx.x] += 1.0f; }
void run_n(float *x) { n<<<1, 64>>>(x); }
