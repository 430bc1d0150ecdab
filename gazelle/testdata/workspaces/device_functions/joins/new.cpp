__device__ int f() { return 1; }
