#pragma once

#include <hip/hip_runtime.h>

// Device code of another source: that is what relocatable device code is for.
__device__ float madd(float a, float b, float c);
