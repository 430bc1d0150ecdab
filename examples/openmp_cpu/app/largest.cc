double largest(const double *x, int n) {
  double most = 0;
#pragma omp target teams distribute parallel for map(to : x[0 : n]) map(tofrom : most) reduction(max : most)
  for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}
