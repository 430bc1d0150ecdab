__global__ void scan_kernel() {}

void scan() { scan_kernel<<<1, 1>>>(); }
