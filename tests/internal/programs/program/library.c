// A library with target regions of its own.
#include <omp.h>

int sum_to(int n) {
  int sum = 0, on_host = -1;
#pragma omp target map(tofrom : sum, on_host)
  {
    on_host = omp_is_initial_device();
    for (int i = 0; i < n; i++)
      sum += i;
  }
  return on_host ? -1 : sum;
}

int square(int n) {
  int result = 0, on_host = -1;
#pragma omp target map(from : result) map(tofrom : on_host)
  {
    on_host = omp_is_initial_device();
    result = n * n;
  }
  return on_host ? -1 : result;
}
