// Several kernels of one source: launch bounds, functions that they share, floating point that flags change.
#include "device.h"

__device__ static float polynomial(float x) { return ((((1.5f * x + 2.5f) * x - 3.25f) * x + 0.125f) * x - 7) * x; }
__device__ static float divide(float a, float b) { return a / b + polynomial(a) / polynomial(b); }

extern "C" __global__ void __launch_bounds__(1024) bounded_1024(float *data) {
  float v[48];
  for (int i = 0; i < 48; i++) v[i] = polynomial(data[item() + i * 7]);
  for (int i = 0; i < 48; i++) data[item() * 48 + i] = v[i] * v[47 - i];
}
extern "C" __global__ void __launch_bounds__(64, 1) bounded_64(float *data) { data[item()] = divide(data[item()], data[0]); }
extern "C" __global__ void root(float *data) { data[item()] = __builtin_sqrtf(data[item()]) + __builtin_fmaf(data[1], data[2], data[3]); }
extern "C" __global__ void divided(float *data, float by) { data[item()] = divide(data[item()], by); }
extern "C" __global__ void summed(const float *data, float *out, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += data[item() * n + i] * 3.0f;
  *out = sum;
}

// Attributes that limit what a kernel takes, and a function that other code objects could call.
extern "C" __global__ void __attribute__((amdgpu_waves_per_eu(2, 4), amdgpu_flat_work_group_size(64, 128))) limited(float *data) {
  float sum = 0;
  for (int i = 0; i < 24; i++) sum += divide(data[i], data[item() + i]);
  data[item()] = sum;
}
extern "C" __device__ __attribute__((noinline, visibility("default"))) float shown(float x) { return divide(x, 3); }
extern "C" __global__ void shows(float *data) { data[item()] = shown(data[item()]); }
