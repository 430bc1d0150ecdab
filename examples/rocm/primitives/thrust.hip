// An array doubled and added up with rocThrust.
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

#include <cstdio>

struct Twice {
  __host__ __device__ int operator()(int x) const { return 2 * x; }
};

int main() {
  int devices = 0;
  if (hipError_t error = hipGetDeviceCount(&devices); error != hipSuccess) {
    std::printf("no GPU: %s\n", hipGetErrorString(error));
    return 0;
  }
  thrust::device_vector<int> values(1000, 3);
  thrust::transform(values.begin(), values.end(), values.begin(), Twice());
  int sum = thrust::reduce(values.begin(), values.end());
  if (sum != 6000) return std::printf("%d, expected 6000\n", sum), 1;
  std::printf("right\n");
}
