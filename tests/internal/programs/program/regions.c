// A program with target regions of its own that uses the library.
#include <omp.h>
#include <stdio.h>

int sum_to(int), square(int);

int main(void) {
  int own = 0, on_host = -1;
#pragma omp target map(tofrom : own, on_host)
  {
    on_host = omp_is_initial_device();
    own = 7;
  }
  printf("library=%d,%d own=%d on_host=%d\n", sum_to(10), square(7), own, on_host);
  return sum_to(10) != 45 || square(7) != 49 || own != 7 || on_host;
}
