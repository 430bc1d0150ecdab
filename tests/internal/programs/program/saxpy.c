// One target region; fails unless it ran on a device.
#include <omp.h>
#include <stdio.h>

int main(void) {
  enum { N = 1024 };
  static float x[N], y[N];
  for (int i = 0; i < N; i++) {
    x[i] = 1;
    y[i] = 2;
  }
  int on_host = -1;
#pragma omp target map(tofrom : y, on_host) map(to : x)
  {
    on_host = omp_is_initial_device();
    for (int i = 0; i < N; i++)
      y[i] += 2 * x[i];
  }
  double sum = 0;
  for (int i = 0; i < N; i++)
    sum += y[i];
  printf("on_host=%d sum=%.1f\n", on_host, sum);
  return on_host != 0 || sum != 4 * N;
}
