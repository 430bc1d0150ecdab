// A stand-in for HIP's runtime: it prints what programs register and launch.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wrapper {
  uint32_t magic, version;
  const char *bundle;
  void *unused;
};

static uint64_t number(const char *p) {
  uint64_t n;
  memcpy(&n, p, sizeof n);
  return n;
}

void **__hipRegisterFatBinary(struct wrapper *w) {
  if (memcmp(w->bundle, "CCOB", 4) == 0) {
    printf("fat binary: compressed\n");
    return (void **)w;
  }
  const char *p = w->bundle + 24;
  uint64_t entries = number(p);
  printf("fat binary: %.4s, aligned to %s, %llu entries\n", (const char *)&(uint32_t){__builtin_bswap32(w->magic)},
         (uintptr_t)w->bundle % 4096 ? "less than a page" : "pages", (unsigned long long)entries);
  p += 8;
  for (uint64_t i = 0; i < entries; i++) {
    uint64_t offset = number(p), size = number(p + 8), length = number(p + 16);
    const char *code = w->bundle + offset;
    printf("  %.*s: %s\n", (int)length, p + 24, size == 0 ? "empty" : memcmp(code, "\177ELF", 4) ? "no code object" : "a code object");
    p += 24 + length;
  }
  return (void **)w;
}

void __hipUnregisterFatBinary(void **handle) { printf("fat binary unregistered\n"); }

enum { kernels = 100 };
static struct {
  const void *host;
  const char *name;
} known[kernels];
static int count;

void __hipRegisterFunction(void **handle, const void *host, char *device, const char *name) {
  printf("  kernel %s\n", name);
  if (count < kernels) {
    known[count].host = host;
    known[count++].name = name;
  }
}

void __hipRegisterVar(void **handle, void *host, char *device, const char *name, int is_extern, size_t size) {
  printf("  variable %s of %zu bytes\n", name, size);
}

void __hipRegisterManagedVar(void **handle) {}
void __hipRegisterSurface(void **handle) {}
void __hipRegisterTexture(void **handle) {}

struct dim3 {
  unsigned x, y, z;
};
static struct dim3 pushed_grid, pushed_block;

int __hipPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
  pushed_grid = grid;
  pushed_block = block;
  return 0;
}

int __hipPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void **stream) {
  *grid = pushed_grid;
  *block = pushed_block;
  *shared = 0;
  *stream = 0;
  return 0;
}

int hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block) {
  for (int i = 0; i < count; i++) {
    if (known[i].host == host) {
      printf("launch of %s: %u blocks of %u\n", known[i].name, grid.x, block.x);
      return 0;
    }
  }
  printf("launch of a kernel that nobody registered\n");
  return 1;
}

int hipMalloc(void **memory, size_t size) {
  *memory = malloc(size);
  return *memory == 0;
}

int hipFree(void *memory) {
  free(memory);
  return 0;
}

int hipDeviceSynchronize(void) { return 0; }
