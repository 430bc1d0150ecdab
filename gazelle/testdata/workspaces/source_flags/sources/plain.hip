__global__ void plain_kernel() {}

void plain() { plain_kernel<<<1, 1>>>(); }
