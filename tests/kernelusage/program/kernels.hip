// Kernels of varied register pressure, LDS, scratch and workgroup sizes.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define LIMIT(n) __attribute__((amdgpu_flat_work_group_size(1, n)))

template <int N> __device__ void churn(float *p, int n) {
  float a[N];
#pragma unroll
  for (int i = 0; i < N; i++)
    a[i] = p[i * n + __builtin_amdgcn_workitem_id_x()];
  for (int j = 0; j < n; j++)
#pragma unroll
    for (int i = 0; i < N; i++)
      a[i] = a[i] * a[(i * 7 + 3) % N] + p[j];
#pragma unroll
  for (int i = 0; i < N; i++)
    p[i * n + __builtin_amdgcn_workitem_id_x()] = a[i];
}
template <int N> __global__ void pressure(float *p, int n) { churn<N>(p, n); }
template <int N, int SIZE> __global__ LIMIT(SIZE) void bounded(float *p, int n) { churn<N>(p, n); }
template __global__ void pressure<2>(float *, int);
template __global__ void pressure<16>(float *, int);
template __global__ void pressure<24>(float *, int);
template __global__ void pressure<30>(float *, int);
template __global__ void pressure<40>(float *, int);
template __global__ void pressure<62>(float *, int);
template __global__ void pressure<110>(float *, int);
template __global__ void bounded<40, 64>(float *, int);
template __global__ void bounded<140, 256>(float *, int);
template __global__ void bounded<2, 32>(float *, int);
template __global__ void bounded<2, 64>(float *, int);
template __global__ void bounded<2, 96>(float *, int);
template __global__ void bounded<2, 320>(float *, int);
template __global__ void bounded<2, 768>(float *, int);

template <int BYTES, int SIZE> __global__ LIMIT(SIZE) void lds(int *p) {
  __shared__ int s[BYTES / 4];
  int i = __builtin_amdgcn_workitem_id_x();
  s[i % (BYTES / 4)] = p[i];
  __builtin_amdgcn_s_barrier();
  p[i] = s[(i + 1) % (BYTES / 4)];
}
template __global__ void lds<16, 1024>(int *);
template __global__ void lds<1024, 64>(int *);
template __global__ void lds<3000, 64>(int *);
template __global__ void lds<5000, 256>(int *);
template __global__ void lds<12000, 512>(int *);
template __global__ void lds<20000, 1024>(int *);
template __global__ void lds<32768, 64>(int *);

// The author asks for fewer waves than the registers permit.
__global__ __attribute__((amdgpu_waves_per_eu(2, 2))) void asked(float *p, int n) { churn<8>(p, n); }
__global__ __attribute__((amdgpu_waves_per_eu(4, 4))) void askedFour(float *p, int n) { churn<8>(p, n); }
// Registers that are not there are spilled.
__global__ __attribute__((amdgpu_num_vgpr(24))) void spilled(float *p, int n) { churn<62>(p, n); }

// Scratch: an array that is indexed by what is only known at run time.
__global__ void scratch(int *p, int n) {
  int a[64];
  for (int i = 0; i < 64; i++)
    a[i] = p[i * n];
  for (int i = 0; i < n; i++)
    a[p[i] & 63] += i;
  for (int i = 0; i < 64; i++)
    p[i] = a[(i * n) & 63];
}
// A stack whose size is not known: a call through a pointer.
__global__ void indirect(void (*f)(int *), int *p) { f(p); }

// Many scalars.
template <int N> __device__ void scalars(int *p, const int *q) {
  int a[N];
#pragma unroll
  for (int i = 0; i < N; i++)
    a[i] = __builtin_amdgcn_readfirstlane(q[i]);
  for (int k = 0; k < q[N]; k++)
#pragma unroll
    for (int i = 0; i < N; i++)
      a[i] = __builtin_amdgcn_readfirstlane(a[i] * a[(i + 1) % N]);
#pragma unroll
  for (int i = 0; i < N; i++)
    p[i] = a[i];
}
template <int N> __global__ void scalar(int *p, const int *q) { scalars<N>(p, q); }
template __global__ void scalar<40>(int *, const int *);
template __global__ void scalar<66>(int *, const int *);
template __global__ void scalar<78>(int *, const int *);
template __global__ void scalar<140>(int *, const int *);
