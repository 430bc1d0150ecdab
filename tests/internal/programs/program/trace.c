// Stand-ins for the registration functions of OpenMP, HIP and CUDA that print
// every argument.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PRINT(...) (printf(__VA_ARGS__), fflush(stdout))

static unsigned hash(const char *p, const char *end) {
  unsigned h = 0;
  while (p < end)
    h = h * 31 + (unsigned char)*p++;
  return h;
}

// Whether the stack is aligned as functions expect it.
#define ALIGNED ((uintptr_t)__builtin_frame_address(0) % 16 == 0)

struct wrapper {
  uint32_t magic, version;
  const char *binary;
  void *unused;
};

static int handle;

#define RUNTIME(L)                                                                                                     \
  void *__##L##RegisterFatBinary(struct wrapper *w) {                                                                  \
    PRINT(#L " fat binary %x %u %x %p %d\n", w->magic, w->version, hash(w->binary, w->binary + 100), w->unused,        \
          ALIGNED);                                                                                                    \
    return &handle;                                                                                                    \
  }                                                                                                                    \
  void __##L##RegisterFatBinaryEnd(void *h) { PRINT(#L " end %d %d\n", h == &handle, ALIGNED); }                       \
  void __##L##UnregisterFatBinary(void *h) { PRINT(#L " unregister %d %d\n", h == &handle, ALIGNED); }                 \
  int __##L##RegisterFunction(void *h, char *address, char *name, char *device, int limit, void *a, void *b, void *c,  \
                              void *d, void *e) {                                                                      \
    PRINT(#L " function %d %s %s %s %d %p %p %p %p %p %d\n", h == &handle, address, name, device, limit, a, b, c, d,   \
          e, ALIGNED);                                                                                                 \
    return 0;                                                                                                          \
  }                                                                                                                    \
  void __##L##RegisterVar(void *h, char *address, char *name, char *device, int external, size_t size, int constant,   \
                          int global) {                                                                                \
    PRINT(#L " variable %d %s %s %s %d %zx %d %d %d\n", h == &handle, address, name, device, external, size, constant, \
          global, ALIGNED);                                                                                            \
  }                                                                                                                    \
  void __##L##RegisterManagedVar(void *h, char *auxiliary, char *address, char *name, size_t size, unsigned align) {   \
    PRINT(#L " managed %d %td %s %s %zx %u %d\n", h == &handle, auxiliary - address, address, name, size, align,       \
          ALIGNED);                                                                                                    \
  }                                                                                                                    \
  void __##L##RegisterSurface(void *h, char *address, char *name, char *device, int type, int external) {              \
    PRINT(#L " surface %d %s %s %s %d %d %d\n", h == &handle, address, name, device, type, external, ALIGNED);         \
  }                                                                                                                    \
  void __##L##RegisterTexture(void *h, char *address, char *name, char *device, int type, int normalized,              \
                              int external) {                                                                          \
    PRINT(#L " texture %d %s %s %s %d %d %d %d\n", h == &handle, address, name, device, type, normalized, external,    \
          ALIGNED);                                                                                                    \
  }

RUNTIME(hip)
RUNTIME(cuda)

struct entry {
  uint64_t zero;
  uint16_t version, kind;
  uint32_t flags;
  char *address, *name;
  uint64_t size, data;
  void *auxiliary;
};
struct image {
  char *start, *end;
  struct entry *entries, *entries_end;
};
struct descriptor {
  int32_t count;
  struct image *images;
  struct entry *entries, *entries_end;
};

void __tgt_register_lib(struct descriptor *d) {
  PRINT("openmp %d images, %d\n", d->count, ALIGNED);
  for (int i = 0; i < d->count; i++) {
    struct image *m = &d->images[i];
    PRINT("  %td bytes %x, aligned %d, entries %d %d\n", m->end - m->start, hash(m->start, m->end),
          (uintptr_t)m->start % 8 == 0, m->entries == d->entries, m->entries_end == d->entries_end);
  }
  for (struct entry *e = d->entries; e < d->entries_end; e++)
    PRINT("  %s %s\n", e->name, e->address);
}

void __tgt_unregister_lib(struct descriptor *d) { PRINT("openmp unregister %d %d\n", d->count, ALIGNED); }
