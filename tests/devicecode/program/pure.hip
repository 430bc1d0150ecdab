// A function without a variable.
#include "hip.h"

__device__ int twice(int x) { return 2 * x; }
