#pragma once

#include "runtime/hip_runtime_api.h"

// Device code of another source: that is what relocatable device code is for.
__device__ float madd(float a, float b, float c);
