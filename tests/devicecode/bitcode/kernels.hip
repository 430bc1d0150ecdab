#include "../program/hip.h"

#ifdef HERE
static __device__ int scale(int x) { return 3 * x + 1; }
static __device__ int sum(int a, int b) { return scale(a) + b; }
static __device__ int twice(int x) { return x << 1; }
static __device__ int less(int x) { return x - 5; }
static __device__ int below(int x) { return x ^ 85; }
#else
extern "C" __device__ int sum(int a, int b);
extern "C" __device__ int twice(int x);
extern "C" __device__ int below(int x);
__device__ int less(int x);
#endif

__global__ void first(int *p) { p[0] = less(sum(p[1], p[2])); }
__global__ void second(int *p) { p[0] = below(twice(p[1])); }
