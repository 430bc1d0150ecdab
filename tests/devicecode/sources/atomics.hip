// Atomic operations, those of floating point among them: -munsafe-fp-atomics has instructions for them.
#include "device.h"

extern "C" __global__ void accumulate(float *sum, double *wide, const float *in) {
  __atomic_fetch_add(sum, in[item()], __ATOMIC_RELAXED);
  __atomic_fetch_add(wide, (double)in[item()], __ATOMIC_RELAXED);
}

extern "C" __global__ void extremes(unsigned *least, int *most, const int *in) {
  __atomic_fetch_min(least, (unsigned)in[item()], __ATOMIC_RELAXED);
  __atomic_fetch_max(most, in[item()], __ATOMIC_ACQ_REL);
}

extern "C" __global__ void push(unsigned long *head, unsigned long *next) {
  unsigned long old = __atomic_load_n(head, __ATOMIC_RELAXED);
  do next[item()] = old;
  while (!__atomic_compare_exchange_n(head, &old, (unsigned long)item(), true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}
