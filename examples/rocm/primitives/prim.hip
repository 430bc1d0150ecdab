// The sum of an array with rocPRIM, whose headers of ROCm 7.2 call memset but do not include <cstring>.
#include <cstring>
#include <hip/hip_runtime.h>
#include <rocprim/rocprim.hpp>

#include <cstdio>
#include <vector>

int main() {
  int devices = 0;
  if (hipError_t error = hipGetDeviceCount(&devices); error != hipSuccess) {
    std::printf("no GPU: %s\n", hipGetErrorString(error));
    return 0;
  }
  const size_t n = 1000;
  std::vector<int> values(n, 2);
  int *in, *out, sum = 0;
  if (hipMalloc(&in, n * sizeof(int)) != hipSuccess || hipMalloc(&out, sizeof(int)) != hipSuccess) return 1;
  if (hipMemcpy(in, values.data(), n * sizeof(int), hipMemcpyHostToDevice) != hipSuccess) return 1;
  size_t size = 0;
  void *scratch = nullptr;
  if (rocprim::reduce(scratch, size, in, out, 0, n, rocprim::plus<int>()) != hipSuccess) return 1;
  if (hipMalloc(&scratch, size) != hipSuccess) return 1;
  if (rocprim::reduce(scratch, size, in, out, 0, n, rocprim::plus<int>()) != hipSuccess) return 1;
  if (hipMemcpy(&sum, out, sizeof sum, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  if (sum != 2000) return std::printf("%d, expected 2000\n", sum), 1;
  std::printf("right\n");
}
