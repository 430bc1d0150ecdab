// Random numbers of a given seed with rocRAND.
#include <hip/hip_runtime_api.h>
#include <rocrand/rocrand.h>

#include <cstdio>
#include <vector>

int main() {
  int devices = 0;
  if (hipError_t error = hipGetDeviceCount(&devices); error != hipSuccess) {
    std::printf("no GPU: %s\n", hipGetErrorString(error));
    return 0;
  }
  const size_t n = 1000;
  std::vector<float> values(n);
  float *on_gpu;
  rocrand_generator generator;
  if (hipMalloc(reinterpret_cast<void **>(&on_gpu), n * sizeof(float)) != hipSuccess) return 1;
  if (rocrand_create_generator(&generator, ROCRAND_RNG_PSEUDO_XORWOW) != ROCRAND_STATUS_SUCCESS) return 1;
  if (rocrand_set_seed(generator, 1) != ROCRAND_STATUS_SUCCESS) return 1;
  if (rocrand_generate_uniform(generator, on_gpu, n) != ROCRAND_STATUS_SUCCESS) return 1;
  if (hipMemcpy(values.data(), on_gpu, n * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  for (float value : values) {
    if (value <= 0 || value > 1) return std::printf("%g, expected a number between 0 and 1\n", value), 1;
  }
  std::printf("right\n");
}
