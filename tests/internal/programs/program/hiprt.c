// A stand-in for the HIP runtime: it prints every registration, walks the
// bundle, and finds the kernels that a program launches.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wrapper {
  uint32_t magic, version;
  const char *binary;
  void *unused;
};

static struct binary {
  const char *data;
  int live;
} binaries[8];
static struct {
  struct binary *binary;
  const void *host;
  const char *name;
} functions[64];
static int binary_count, function_count;

static uint64_t number(const char *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

void **__hipRegisterFatBinary(const struct wrapper *w) {
  static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
  if (w->magic != 0x48495046 || w->version != 1 || memcmp(w->binary, magic, 24)) {
    printf("no fat binary\n");
    exit(1);
  }
  struct binary *b = &binaries[binary_count++];
  b->data = w->binary;
  b->live = 1;
  printf("fat binary, page aligned: %s\n", (uintptr_t)w->binary % 4096 ? "no" : "yes");
  const char *p = w->binary + 32;
  for (uint64_t i = 0, n = number(w->binary + 24); i < n; i++) {
    uint64_t offset = number(p), size = number(p + 8), length = number(p + 16);
    printf("  %.*s: %s\n", (int)length, p + 24,
           size == 0 ? "empty" : memcmp(w->binary + offset, "\177ELF", 4) ? "no code object" : "code object");
    p += 24 + length;
  }
  return (void **)b;
}

void __hipUnregisterFatBinary(void **handle) {
  struct binary *b = (struct binary *)handle;
  printf("unregister %s\n", b->live ? "once" : "twice");
  b->live = 0;
}

int __hipRegisterFunction(void **handle, const void *host, char *name, const char *device, unsigned limit, void *tid,
                          void *bid, void *block, void *grid, int *size) {
  printf("function %s %s %d %d\n", name, device, (int)limit, tid || bid || block || grid || size);
  functions[function_count].binary = (struct binary *)handle;
  functions[function_count].host = host;
  functions[function_count++].name = name;
  return 0;
}

void __hipRegisterVar(void **handle, void *host, char *name, const char *device, int external, size_t size,
                      int constant, int global) {
  printf("variable %s %s extern=%d size=%zu constant=%d global=%d live=%d\n", name, device, external, size, constant,
         global, ((struct binary *)handle)->live);
}

void __hipRegisterManagedVar(void **handle, void **pointer, void *initial, const char *name, size_t size,
                             unsigned align) {
  printf("managed variable %s size=%zu align=%u live=%d\n", name, size, align, ((struct binary *)handle)->live);
}

void __hipRegisterSurface(void **handle, void *host, char *name, char *device, int type, int external) {
  printf("surface %s\n", name);
}

void __hipRegisterTexture(void **handle, void *host, char *name, char *device, int type, int normalized,
                          int external) {
  printf("texture %s\n", name);
}

struct dim3 {
  unsigned x, y, z;
};
static struct dim3 grid, block;

int __hipPushCallConfiguration(struct dim3 g, struct dim3 b, size_t shared, void *stream) {
  grid = g;
  block = b;
  return 0;
}

int __hipPopCallConfiguration(struct dim3 *g, struct dim3 *b, size_t *shared, void **stream) {
  *g = grid;
  *b = block;
  *shared = 0;
  *stream = 0;
  return 0;
}

int hipLaunchKernel(const void *host, struct dim3 g, struct dim3 b, void **args, size_t shared, void *stream) {
  for (int i = 0; i < function_count; i++)
    if (functions[i].host == host && functions[i].binary->live) {
      printf("launch %s grid %u,%u,%u block %u\n", functions[i].name, g.x, g.y, g.z, b.x);
      return 0;
    }
  printf("launch of an unknown kernel\n");
  exit(1);
}
