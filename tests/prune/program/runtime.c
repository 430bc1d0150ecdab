// A stand-in for the HIP runtime: it prints what is registered, with a checksum of
// every code object.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct wrapper {
  uint32_t magic, version;
  const char *binary;
  uint64_t index;
};

static uint64_t checksum(const char *p, uint64_t n) {
  uint64_t h = 1469598103934665603u;
  for (uint64_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)p[i]) * 1099511628211u;
  return h;
}

static int count;

void **__hipRegisterFatBinary(const struct wrapper *w) {
  const char *p = w->binary;
  printf("wrapper %d", count++);
  if (w->magic == 0x4B504948) {
    printf(" marker %02x index %d\n", (unsigned char)p[0], (int)w->index);
  } else if (w->magic == 0x48495046 && !memcmp(p, "CCOB", 4)) {
    printf(" compressed\n");
  } else if (w->magic == 0x48495046 && !memcmp(p, "__CLANG_OFFLOAD_BUNDLE__", 24)) {
    printf(" bundle index %d\n", (int)w->index);
    uint64_t n, v[3];
    memcpy(&n, p + 24, 8);
    for (p += 32; n > 0; n--) {
      memcpy(v, p, 24);
      printf("  %.*s %d %016llx\n", (int)v[2], p + 24, (int)v[1], (unsigned long long)checksum(w->binary + v[0], v[1]));
      p += 24 + v[2];
    }
  } else {
    printf(" damaged\n");
  }
  fflush(stdout);
  return (void **)(uintptr_t)count;
}
