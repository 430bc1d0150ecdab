#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

__device__ static unsigned item() { return __nvvm_read_ptx_sreg_ctaid_x() * 256 + __nvvm_read_ptx_sreg_tid_x(); }
extern "C" __global__ void fill(int *data, int value) { data[item()] = value; }
