// As in mathematics.cc, in C.
#include <math.h>
#include <stdlib.h>

double roots(const double *p, int n) {
  double sum = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(to : p[0 : n]) map(tofrom : sum)
  for (int i = 0; i < n; i++) sum += fabs(p[i]) * sqrt(p[i]) + cos(p[i]) + abs(i);
  return sum;
}
