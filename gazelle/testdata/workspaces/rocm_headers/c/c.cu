#include <cuda_fp16.h>
__global__ void k() { hipFree(0); }
