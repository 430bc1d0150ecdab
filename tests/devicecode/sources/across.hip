// Kernels that call device functions of another source, with -fgpu-rdc.
#include "device.h"

__device__ float weigh(float x, int kind);
__device__ int power(int x, int n);
__device__ extern unsigned seen;

extern "C" __global__ void weighed(float *data) { data[item()] = weigh(data[item()], 2); }
extern "C" __global__ void chosen(float *data, int kind) { data[item()] = weigh(data[item()], kind); }
extern "C" __global__ void cubes(int *data) {
  data[item()] = power(data[item()], 3);
  seen++;
}
