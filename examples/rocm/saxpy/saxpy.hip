#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

__global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

int main() {
  int devices = 0;
  if (hipError_t error = hipGetDeviceCount(&devices); error != hipSuccess) {
    std::printf("no GPU: %s\n", hipGetErrorString(error));
    return 0;
  }
  const int n = 1000;
  std::vector<float> x(n, 3), y(n, 4);
  float *on_gpu;
  if (hipMalloc(&on_gpu, 2 * n * sizeof(float)) != hipSuccess) return 1;
  if (hipMemcpy(on_gpu, x.data(), n * sizeof(float), hipMemcpyHostToDevice) != hipSuccess) return 1;
  if (hipMemcpy(on_gpu + n, y.data(), n * sizeof(float), hipMemcpyHostToDevice) != hipSuccess) return 1;
  saxpy<<<(n + 255) / 256, 256>>>(2, on_gpu, on_gpu + n, n);
  if (hipMemcpy(y.data(), on_gpu + n, n * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  for (float value : y) {
    if (value != 10) return std::printf("%g, expected 10\n", value), 1;
  }
  std::printf("right\n");
  return hipFree(on_gpu) != hipSuccess;
}
