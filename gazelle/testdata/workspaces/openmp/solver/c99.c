void f(void) {
#pragma omp \
  declare target
}
