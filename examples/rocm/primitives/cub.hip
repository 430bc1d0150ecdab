// The largest number of an array with hipCUB.
#include <hip/hip_runtime.h>
#include <hipcub/hipcub.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  int devices = 0;
  if (hipError_t error = hipGetDeviceCount(&devices); error != hipSuccess) {
    std::printf("no GPU: %s\n", hipGetErrorString(error));
    return 0;
  }
  const int n = 1000;
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 1);
  int *in, *out, largest = 0;
  if (hipMalloc(&in, n * sizeof(int)) != hipSuccess || hipMalloc(&out, sizeof(int)) != hipSuccess) return 1;
  if (hipMemcpy(in, values.data(), n * sizeof(int), hipMemcpyHostToDevice) != hipSuccess) return 1;
  size_t size = 0;
  void *scratch = nullptr;
  if (hipcub::DeviceReduce::Max(scratch, size, in, out, n) != hipSuccess) return 1;
  if (hipMalloc(&scratch, size) != hipSuccess) return 1;
  if (hipcub::DeviceReduce::Max(scratch, size, in, out, n) != hipSuccess) return 1;
  if (hipMemcpy(&largest, out, sizeof largest, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  if (largest != n) return std::printf("%d, expected %d\n", largest, n), 1;
  std::printf("right\n");
}
