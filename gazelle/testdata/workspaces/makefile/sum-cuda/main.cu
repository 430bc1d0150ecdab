#include <cuda.h>
#include "reference.h"
__global__ void sum(int *x) {}
int main() { sum<<<1, 1>>>(nullptr); }
