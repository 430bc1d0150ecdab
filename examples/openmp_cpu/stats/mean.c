#include <omp.h>

#include "stats.h"

double mean(const double *x, int n, int *host_threads) {
  double sum = 0;
  int host = 0;
#pragma omp target teams distribute parallel for map(to : x[0 : n]) map(tofrom : sum, host) reduction(+ : sum, host)
  for (int i = 0; i < n; i++) {
    sum += x[i];
    host += omp_is_initial_device();
  }
  *host_threads = host;
  return sum / n;
}
