// A stand-in for HIP's runtime: it prints what programs register and launch.
#include <stdint.h>
#include <stdio.h>

struct wrapper {
  uint32_t magic, version;
  const char *bundle;
  void *unused;
};
static struct {
  const void *host;
  const char *name;
  void **handle;
} known[100];
static int count, handles;

static const char *name_of(const void *host) {
  for (int i = 0; i < count; i++)
    if (known[i].host == host) return known[i].name;
  return "unknown";
}

void **__hipRegisterFatBinary(struct wrapper *w) {
  handles++;
  printf("fat binary %.24s%s\n", w->bundle, (uintptr_t)w->bundle % 4096 ? " not at a page" : "");
  return (void **)w;
}
void __hipUnregisterFatBinary(void **handle) { printf("unregistered\n"); }
void __hipRegisterFunction(void **handle, const void *host, char *device, const char *name) {
  printf("kernel %s\n", name);
  known[count].handle = handle, known[count].host = host, known[count++].name = name;
}
void __hipRegisterVar(void **handle, void *host, char *device, const char *name, int is_extern, size_t size) {
  printf("variable %s\n", name);
  known[count].handle = handle, known[count].host = host, known[count++].name = name;
}
void __hipRegisterManagedVar(void **handle) {}
void __hipRegisterSurface(void **handle) {}
void __hipRegisterTexture(void **handle) {}

struct dim3 {
  unsigned x, y, z;
};
static struct dim3 grid, block;
int __hipPushCallConfiguration(struct dim3 g, struct dim3 b, size_t shared, void *stream) {
  grid = g, block = b;
  return 0;
}
int __hipPopCallConfiguration(struct dim3 *g, struct dim3 *b, size_t *shared, void **stream) {
  *g = grid, *b = block, *shared = 0, *stream = 0;
  return 0;
}
int hipLaunchKernel(const void *kernel, struct dim3 g, struct dim3 b, void **arguments, size_t shared, void *stream) {
  printf("launch %s\n", name_of(kernel));
  return 0;
}
int hipMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind) {
  printf("set %s\n", name_of(symbol));
  return 0;
}
