#pragma once

// Scales n numbers on the device.
template <typename T>
void scale_all(T *x, int n, T by) {
#pragma omp target teams distribute parallel for map(tofrom : x[0 : n])
  for (int i = 0; i < n; i++) x[i] *= by;
}
