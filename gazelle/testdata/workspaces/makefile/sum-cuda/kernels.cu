__global__ void unused(int *x) {}
