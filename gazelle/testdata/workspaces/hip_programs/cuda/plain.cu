__global__ void k(int *p) { *p = 1; }

int main() {
  int *p;
  cudaMalloc(&p, sizeof(int));
  k<<<1, 1>>>(p);
  return cudaDeviceSynchronize();
}
