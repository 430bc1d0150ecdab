__device__ int listed() { return 1; }
