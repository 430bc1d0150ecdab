// What <<<>>> calls. With ROCm: #include <hip/hip_runtime.h>.
#pragma once

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" {
int __hipPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = 0);
int __hipPopCallConfiguration(dim3 *grid, dim3 *block, unsigned long *shared, void **stream);
int hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, unsigned long shared, void *stream);
}
