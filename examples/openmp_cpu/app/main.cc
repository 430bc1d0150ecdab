#include <cstdio>
#include <vector>

#include "stats/stats.h"

// A region of the program's own, beside those of the library.
double largest(const double *x, int n);

int main() {
  std::vector<double> x(100000);
  for (int i = 0; i < 100000; i++) x[i] = i;
  scale(x.data(), 100000, 2);
  int on_host = -1;
  double m = mean(x.data(), 100000, &on_host), l = largest(x.data(), 100000);
  std::printf("mean %.1f, largest %.1f, parts on the host: %d\n", m, l, on_host);
  return m == 99999 && l == 199998 && on_host == 0 ? 0 : 1;
}
