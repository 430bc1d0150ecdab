__device__ void f();

__global__ void kernel() { f(); }

int main() { kernel<<<1, 1>>>(); }
