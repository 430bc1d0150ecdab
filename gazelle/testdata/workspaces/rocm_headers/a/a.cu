#include <hip/hip_runtime.h>
#include <hipcub/hipcub.hpp>
#include <rocprim/rocprim.hpp>
#include <thrust/sort.h>
#include "hipblas/hipblas.h"
#include <rccl/rccl.h>
#include <hiprand_kernel.h>
#include "cuda_compat.h"
#include <vector>
__global__ void k() {}
void f() { k<<<1, 1>>>(); cudaCompat(); }
