// Prefix sums of each work group's part (Blelloch's up- and down-sweep in shared
// memory), and the kernel that adds the offsets of the parts before.
#include "kernels/device.h"

namespace {

constexpr int kBlock = 256;
constexpr int kPart = 2 * kBlock;

template <typename T, bool Inclusive>
__device__ void scan(const T *in, T *out, T *totals, unsigned n) {
  __shared__ T part[kPart];
  const unsigned item = device::thread_x();
  const unsigned base = device::block_x() * kPart;
  T own[2];
  for (int i = 0; i < 2; ++i) {
    const unsigned at = 2 * item + i;
    own[i] = base + at < n ? in[base + at] : T(0);
    part[at] = own[i];
  }

  unsigned stride = 1;
  for (unsigned d = kPart / 2; d > 0; d /= 2, stride *= 2) {
    device::barrier();
    if (item < d)
      part[stride * (2 * item + 2) - 1] += part[stride * (2 * item + 1) - 1];
  }
  if (item == 0) {
    totals[device::block_x()] = part[kPart - 1];
    part[kPart - 1] = T(0);
  }
  for (unsigned d = 1; d < kPart; d *= 2) {
    stride /= 2;
    device::barrier();
    if (item < d) {
      const unsigned left = stride * (2 * item + 1) - 1, right = stride * (2 * item + 2) - 1;
      const T before = part[left];
      part[left] = part[right];
      part[right] += before;
    }
  }
  device::barrier();

  for (int i = 0; i < 2; ++i) {
    const unsigned at = 2 * item + i;
    if (base + at < n)
      out[base + at] = part[at] + (Inclusive ? own[i] : T(0));
  }
}

} // namespace

extern "C" {

__global__ __launch_bounds__(kBlock) void scan_inclusive_i32(const int *in, int *out, int *totals, unsigned n) {
  scan<int, true>(in, out, totals, n);
}

__global__ __launch_bounds__(kBlock) void scan_exclusive_i32(const int *in, int *out, int *totals, unsigned n) {
  scan<int, false>(in, out, totals, n);
}

__global__ __launch_bounds__(kBlock) void scan_inclusive_f32(const float *in, float *out, float *totals, unsigned n) {
  scan<float, true>(in, out, totals, n);
}

__global__ __launch_bounds__(kBlock) void add_offsets_i32(int *out, const int *offsets, unsigned n) {
  for (int i = 0; i < 2; ++i) {
    const unsigned at = device::block_x() * kPart + 2 * device::thread_x() + i;
    if (at < n)
      out[at] += offsets[device::block_x()];
  }
}
}
