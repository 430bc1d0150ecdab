#pragma omp begin declare target
int scale(int x);
#pragma omp end declare target

int region(int x) {
#pragma omp target map(tofrom : x)
  x = scale(x);
  return x;
}
