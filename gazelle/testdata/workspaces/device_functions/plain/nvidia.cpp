#include <cuda_runtime.h>
__device__ int nvidia() { return 1; }
