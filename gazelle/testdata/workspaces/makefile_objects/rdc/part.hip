__device__ void f() {}
