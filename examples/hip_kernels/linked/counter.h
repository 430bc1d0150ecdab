#pragma once
#include <hip/hip_runtime.h>

#ifdef __HIP__
extern __device__ int count;
__device__ int next();
#endif
int reset();
