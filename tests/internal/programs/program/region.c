// A target region without headers, for targets that those of the host are not for.
void fill(int *p, int n) {
#pragma omp target teams distribute parallel for map(from : p[0 : n])
  for (int i = 0; i < n; i++)
    p[i] = i;
}
