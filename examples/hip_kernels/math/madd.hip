#include "math/madd.h"

__device__ float madd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
