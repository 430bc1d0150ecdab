#include <hip/hip_runtime.h>
#include "kernel.cu"
#include "../other/kernels.cu"
#include "table.dat"
int main() { k<<<1, 1>>>(); }
