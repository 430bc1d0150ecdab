#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

__device__ static float weigh(float x, int n) {
  for (int i = 0; i < n; i++) x = x * 0.5f + i;
  return x;
}
__device__ static unsigned item() { return __nvvm_read_ptx_sreg_ctaid_x() * 256 + __nvvm_read_ptx_sreg_tid_x(); }
extern "C" __global__ void weighed(float *data, int n) { data[item()] = weigh(data[item()], n); }
extern "C" __global__ void sum(const float *data, float *out, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += weigh(data[i], 3);
  *out = sum;
}

// Limits of a launch, stack and shared memory.
extern "C" __global__ void __attribute__((launch_bounds(128, 2))) bounded(float *data, const int *index) {
  float local[64];
  for (int i = 0; i < 64; i++) local[i] = data[i];
  for (int i = 0; i < 64; i++) local[index[i] & 63] += local[(index[i] + i) & 63];
  data[item()] = local[index[item()] & 63];
}
extern "C" __global__ void shared(float *data) {
  __attribute__((shared)) static float tile[256];
  tile[item() & 255] = data[item()];
  __nvvm_bar_sync(0);
  data[item()] = tile[255 - (item() & 255)];
}
