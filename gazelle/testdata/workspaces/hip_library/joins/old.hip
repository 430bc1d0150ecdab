__global__ void o(float *x) { x[threadIdx.x] += 1.0f; }
void run_o(float *x) { o<<<1, 64>>>(x); }
