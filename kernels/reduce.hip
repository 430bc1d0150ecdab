// One partial result per work group: first across the lanes of a wave, then
// across the waves through shared memory.
#include "kernels/device.h"

namespace {

struct Sum {
  template <typename T> __device__ static T identity() { return T(0); }
  template <typename T> __device__ static T combine(T a, T b) { return a + b; }
};

struct Max {
  template <typename T> __device__ static T identity() {
    return T(-1) < T(0) ? static_cast<T>(-__builtin_huge_valf()) : T(0);
  }
  template <typename T> __device__ static T combine(T a, T b) { return a > b ? a : b; }
};

constexpr int kBlock = 256;
// Reducing over 32 lanes is right for waves of 32 and of 64.
constexpr int kLanes = 32;

template <typename Op, typename T>
__device__ void reduce(const T *in, T *out, unsigned n, unsigned groups) {
  __shared__ T partial[kBlock / kLanes];
  const unsigned item = device::thread_x();

  T value = Op::template identity<T>();
  for (unsigned i = device::block_x() * kBlock + item; i < n; i += groups * kBlock)
    value = Op::combine(value, in[i]);
  for (int mask = kLanes / 2; mask > 0; mask /= 2)
    value = Op::combine(value, device::lane_xor(value, mask));

  if (item % kLanes == 0)
    partial[item / kLanes] = value;
  device::barrier();
  if (item == 0) {
    for (int i = 1; i < kBlock / kLanes; ++i)
      value = Op::combine(value, partial[i]);
    out[device::block_x()] = value;
  }
}

} // namespace

extern "C" {

__global__ __launch_bounds__(kBlock) void sum_f32(const float *in, float *out, unsigned n, unsigned groups) {
  reduce<Sum>(in, out, n, groups);
}

__global__ __launch_bounds__(kBlock) void sum_i32(const int *in, int *out, unsigned n, unsigned groups) {
  reduce<Sum>(in, out, n, groups);
}

__global__ __launch_bounds__(kBlock) void max_f32(const float *in, float *out, unsigned n, unsigned groups) {
  reduce<Max>(in, out, n, groups);
}
}
