// Offload entries of every kind and type. They are weak and unreferenced, as
// compilers emit them.
#include <stdint.h>

struct entry {
  uint64_t zero;
  uint16_t version, kind;
  uint32_t flags;
  char *address, *name;
  uint64_t size, data;
  void *auxiliary;
};

#define ENTRY(NAME, KIND, FLAGS, SIZE, DATA)                                                                           \
  static char address_##NAME[] = "at-" #NAME;                                                                          \
  __attribute__((weak, section("llvm_offload_entries"), aligned(8))) struct entry entry_##NAME __asm__(                \
      ".offloading.entry." #NAME) = {0, 1, KIND, FLAGS, address_##NAME, #NAME, SIZE, DATA, address_##NAME + 1};

enum { OPENMP = 1, CUDA = 2, HIP = 4, SYCL = 8 };

ENTRY(region, OPENMP, 0, 0, 0)
ENTRY(hip_kernel, HIP, 0, 0, 0)
ENTRY(hip_variable, HIP, 0, 8, 5)
ENTRY(hip_extern, HIP, 8, 16, 0)
ENTRY(hip_constant, HIP, 16, 24, 0)
ENTRY(hip_large, HIP, 24, 0x123456789abc, 0)
ENTRY(hip_managed, HIP, 1, 4, 0x1122334455667788)
ENTRY(hip_managed_extern, HIP, 9, 4, 3)
ENTRY(hip_surface, HIP, 2, 4, 7)
ENTRY(hip_surface_extern, HIP, 10, 4, 0xffffffffff)
ENTRY(hip_texture, HIP, 3, 4, 9)
ENTRY(hip_texture_extern, HIP, 11, 4, 9)
ENTRY(hip_texture_normalized, HIP, 35, 4, 9)
ENTRY(hip_texture_both, HIP, 43, 4, 0xffffffffff)
ENTRY(hip_unknown, HIP, 4, 4, 4)
ENTRY(hip_unknown_all, HIP, 0xffffffff, 4, 4)
ENTRY(hip_high_flags, HIP, 0xfffffff8, 4, 4)
ENTRY(hip_kernel_flags, HIP, 63, 0, 7)
ENTRY(cuda_kernel, CUDA, 0, 0, 0)
ENTRY(cuda_variable, CUDA, 0, 8, 5)
ENTRY(cuda_extern, CUDA, 8, 16, 0)
ENTRY(cuda_constant, CUDA, 16, 24, 0)
ENTRY(cuda_managed, CUDA, 1, 4, 77)
ENTRY(cuda_surface, CUDA, 2, 4, 7)
ENTRY(cuda_texture, CUDA, 35, 4, 7)
ENTRY(cuda_kernel_flags, CUDA, 63, 0, 7)
ENTRY(sycl, SYCL, 0, 8, 0)
ENTRY(none, 0, 0, 0, 0)
ENTRY(several, HIP | CUDA, 0, 8, 0)
