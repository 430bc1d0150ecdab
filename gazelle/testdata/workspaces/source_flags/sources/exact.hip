__global__ void exact_kernel() {}

void exact() { exact_kernel<<<1, 1>>>(); }
