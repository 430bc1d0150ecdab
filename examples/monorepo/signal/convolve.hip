#include "signal/complex.h"

// The product of two spectra; times() is in another source.
extern "C" __global__ void convolve(complex *a, const complex *b, unsigned n) {
  if (item() < n) a[item()] = times(a[item()], b[item()]);
}
