// Private arrays with an index that is known when the kernel runs.
#include "device.h"

extern "C" __global__ void permute(const unsigned *order, unsigned *out) {
  unsigned v[16];
  for (unsigned i = 0; i < 16; i++) v[i] = i * item();
  for (unsigned i = 0; i < 16; i++) {
    unsigned j = order[i] & 15, t = v[i];
    v[i] = v[j];
    v[j] = t;
  }
  for (unsigned i = 0; i < 16; i++) out[item() * 16 + i] = v[i];
}

extern "C" __global__ void stack_machine(const int *code, int *out, int n) {
  int stack[32], top = 0;
  for (int i = 0; i < n; i++) {
    switch (code[i] & 3) {
    case 0: stack[top++ & 31] = code[i] >> 2; break;
    case 1: top--, stack[(top - 1) & 31] += stack[top & 31]; break;
    case 2: top--, stack[(top - 1) & 31] *= stack[top & 31]; break;
    default: stack[(top - 1) & 31] = -stack[(top - 1) & 31];
    }
  }
  out[item()] = stack[(top - 1) & 31];
}
