__global__ void k() {}
void main() { k<<<1, 1>>>(); }
