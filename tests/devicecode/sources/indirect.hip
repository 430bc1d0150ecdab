// Calls through pointers, recursion, and calls that are not inlined.
#include "device.h"

typedef float operation(float, float);
__device__ __noinline__ static float add(float a, float b) { return a + b; }
__device__ __noinline__ static float multiply(float a, float b) { return a * b; }
__device__ __noinline__ static float larger(float a, float b) { return a < b ? b : a; }

extern "C" __global__ void apply(const unsigned char *what, float *data, int n) {
  operation *const operations[] = {add, multiply, larger};
  float value = data[item()];
  for (int i = 0; i < n; i++) value = operations[what[i] % 3](value, data[i]);
  data[item()] = value;
}

__device__ static int ackermann(int m, int n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recurse(int *data) { data[item()] = ackermann(data[item()] & 1, 3); }

__device__ __noinline__ static double norm(const double *v) { return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]; }
extern "C" __global__ void called(const double *v, double *out) { out[item()] = norm(v + 3 * item()) + norm(v); }
