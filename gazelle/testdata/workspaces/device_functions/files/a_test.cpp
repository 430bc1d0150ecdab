__device__ int a_test() { return 1; }
