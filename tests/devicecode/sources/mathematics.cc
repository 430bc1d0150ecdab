// Target regions that call functions of the C and C++ libraries: clang has headers of its own for these.
#include <cmath>
#include <complex>
#include <cstring>

double norm(const double *p, int n) {
  double sum = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(to : p[0 : n]) map(tofrom : sum)
  for (int i = 0; i < n; i++) sum += std::fabs(p[i]) * std::sqrt(p[i]) + sin(p[i]);
  return sum;
}

void rotate(std::complex<float> *p, int n) {
#pragma omp target teams distribute parallel for map(tofrom : p[0 : n])
  for (int i = 0; i < n; i++) p[i] *= std::complex<float>(0, 1);
}

void copy(char *out, const char *in, int n) {
#pragma omp target map(from : out[0 : n]) map(to : in[0 : n])
  std::memcpy(out, in, n);
}
