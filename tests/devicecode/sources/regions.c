// Target regions that need nothing of OpenMP's device runtime but its entry points.
#pragma omp declare target
static int twice(int x) { return x * 2; }
int scale = 3;
#pragma omp end declare target

void fill(int *out, int n) {
#pragma omp target teams distribute parallel for map(from : out[0 : n])
  for (int i = 0; i < n; i++) out[i] = twice(i) + scale;
}

double dot(const double *a, const double *b, int n) {
  double sum = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(to : a[0 : n], b[0 : n]) map(tofrom : sum)
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}
