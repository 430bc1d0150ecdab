__device__ int a() { return 1; }
