// What HIP's headers declare of that which kernels.hip and main.hip use.
#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __managed__ __attribute__((managed))

typedef int hipError_t;
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" {
hipError_t __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = 0);
hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
}
