#pragma once
#include "runtime/hip_runtime_api.h"

#ifdef __HIP__
extern __device__ int count;
__device__ int next();
#endif
int reset();
